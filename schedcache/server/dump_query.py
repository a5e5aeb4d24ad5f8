"""What a reader of `/dump` asks for: everything, or some of it."""

import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field

from aiohttp import web
from multidict import MultiMapping

from schedcache.dump import SELECTABLE_FIELDS, DumpFilter
from schedcache.model import LabelSelector, Pod, PodShape, Requirement

_STORIES = re.compile(r"(?:[^/]+(?:/[^/]+)?)?")
_WHOSE = "expected all, NAMESPACE/NAME or the UID of a pod, or the name of a node"
_KEY = r"(?P<key>[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?)"
_VALUE = r"[-A-Za-z0-9_.]*"
_REQUIREMENTS = (
    (re.compile(rf"{_KEY}\s*==?\s*(?P<values>{_VALUE})"), "In"),
    (re.compile(rf"{_KEY}\s*!=\s*(?P<values>{_VALUE})"), "NotIn"),
    (re.compile(rf"{_KEY}\s+in\s*\((?P<values>[^()]*)\)"), "In"),
    (re.compile(rf"{_KEY}\s+notin\s*\((?P<values>[^()]*)\)"), "NotIn"),
    (re.compile(rf"!\s*{_KEY}"), "DoesNotExist"),
    (re.compile(_KEY), "Exists"),
)
_PARAMETERS = ("stories", "nodes", "namespace", "selector", "fields")


class SelectorError(ValueError):
    """A text that is no label selector."""


@dataclass(frozen=True)
class DumpQuery:
    """The parameters of `/dump`; equal ones have equal answers. `stories` None: without.

    Attributes:
        filter: as the dump says it back, None if nothing is left out.
        selector: of the filter, parsed.
    """

    stories: str | None = None
    filter: DumpFilter | None = None
    selector: LabelSelector | None = None
    _shapes: dict[PodShape, bool] = field(default_factory=dict, compare=False, repr=False)

    def wants_field(self, name: str) -> bool:
        """Whether a field of the document is wanted, by its name in JSON."""
        return self.filter is None or not self.filter.fields or name in self.filter.fields

    def wants_node(self, name: str) -> bool:
        return self.filter is None or not self.filter.nodes or name in self.filter.nodes

    def wants_pod(self, pod: Pod, node: str) -> bool:
        """Whether a pod is wanted that is on that node, "" for none; pods of one shape are looked at once."""
        wanted = self._shapes.get(pod.shape)
        if wanted is None:
            namespaces, selector = () if self.filter is None else self.filter.namespace, self.selector
            wanted = (not namespaces or pod.namespace in namespaces) and (
                selector is None or selector.matches(pod.labels)
            )
            self._shapes[pod.shape] = wanted
        return wanted and self.wants_node(node)


def dump_query(parameters: MultiMapping[str]) -> DumpQuery:
    """Raises HTTPBadRequest for invalid parameters."""
    if unknown := sorted(parameters.keys() - set(_PARAMETERS)):
        raise _bad(f"unknown parameter {unknown[0]!r}: expected {', '.join(_PARAMETERS)}, or no parameter")
    given: dict[str, str] = {}
    for name in parameters:
        values = parameters.getall(name)
        if len(values) > 1:
            raise _bad(f"{name}: expected one value, got {len(values)}")
        given[name] = values[0]
    stories = given.get("stories")
    if stories is not None and not _STORIES.fullmatch(stories):
        raise _bad(f"stories: {_WHOSE}, got {stories!r}")
    nodes, namespaces, fields = (_listed(given, name) for name in ("nodes", "namespace", "fields"))
    if unknown := sorted(set(fields) - set(SELECTABLE_FIELDS)):
        raise _bad(f"fields: expected some of {', '.join(SELECTABLE_FIELDS)}, got {unknown[0]!r}")
    text, selector = given.get("selector", ""), None
    if "selector" in given:
        try:
            selector = parse_selector(text)
        except SelectorError as error:
            raise _bad(f"selector: {error}") from error
    filtered = DumpFilter(nodes, namespaces, text, fields)
    return DumpQuery(stories, filtered if filtered != DumpFilter() else None, selector)


def _listed(given: Mapping[str, str], name: str) -> tuple[str, ...]:
    if name not in given:
        return ()
    parts = tuple(sorted({part.strip() for part in given[name].split(",")} - {""}))
    if not parts:
        raise _bad(f"{name}: expected names, separated by commas")
    return parts


def _bad(text: str) -> web.HTTPBadRequest:
    return web.HTTPBadRequest(text=text)


def parse_selector(text: str) -> LabelSelector:
    """As `kubectl -l` has it: `a=b,c!=d,e in (f,g),h notin (i),j,!k`. Raises SelectorError."""
    return LabelSelector(tuple([_requirement(part.strip()) for part in _parts(text)]))


def _parts(text: str) -> Iterator[str]:
    """What commas separate; those between parentheses separate values."""
    begin = 0
    # In one pass: who asks must not keep the scheduler waiting with commas.
    for found in re.finditer(r"\([^()]*\)|,", text):
        if found[0] == ",":
            yield text[begin : found.start()]
            begin = found.end()
    yield text[begin:]


def _requirement(text: str) -> Requirement:
    for pattern, operator in _REQUIREMENTS:
        match = pattern.fullmatch(text)
        if match is not None:
            values = match.groupdict().get("values")
            parsed = () if values is None else tuple(sorted({value.strip() for value in values.split(",")}))
            return Requirement(match["key"], operator, parsed)
    raise SelectorError(f"expected requirements such as app=web or tier in (a,b), separated by commas, got {text!r}")


def matching(names: Container[str], uids: tuple[str, ...]) -> tuple[str, ...]:
    """Those that are among the names, in their order."""
    return tuple([uid for uid in uids if uid in names])
