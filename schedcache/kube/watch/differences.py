"""What a comparison found, object by object and by name: for people."""

from schedcache.kube.watch.store import ObjectStore
from schedcache.kube.watch.sweep import Findings
from schedcache.model import compare_resource_versions
from schedcache.ports import Cause, Difference, KindComparison


def differences_of(store: ObjectStore, found: Findings) -> tuple[Difference, ...]:
    """One for each object; call it before the differences are repaired."""
    kind = store.kind
    told, successors = [], {found.names[uid]: uid for uid, version in found.behind.items() if not version}
    replaced = set()
    for uid in found.gone:
        held = store.get(uid)
        if held is None:
            continue
        name, cause, expected = kind.key_of(held), Cause.MISSED_DELETE, ""
        if name in successors:
            replaced.add(successors[name])
            cause, expected = Cause.WRONG_UID, successors[name]
        told.append(Difference(kind.name, cause, name, uid, held.resource_version, expected))
    for uid, version in found.behind.items():
        if uid in replaced:
            continue
        listed = found.versions[uid]
        if not version:
            cause = Cause.MISSED_ADD
        elif compare_resource_versions(version, listed) == 1:
            cause = Cause.NEWER_VERSION
        else:
            cause = Cause.STALE_VERSION
        told.append(Difference(kind.name, cause, found.names[uid], uid, version, listed))
    return tuple(told)


def comparison_of(store: ObjectStore, found: Findings, seconds: float) -> KindComparison:
    """What a comparison that took so long found; call it before the differences are repaired."""
    return KindComparison(
        store.kind.name,
        found.listed,
        found.bytes,
        round(seconds, 6),
        found.resource_version,
        differences_of(store, found),
    )
