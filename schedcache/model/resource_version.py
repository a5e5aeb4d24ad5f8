"""Which of two states of an object is later."""

import re

_is_number = re.compile(r"[1-9][0-9]*").fullmatch


def compare_resource_versions(one: str, other: str) -> int | None:
    """-1, 0 or 1, as `one` is earlier than, the same as or later than `other`; None if that is unknown.

    Since KEP-5504 (Kubernetes 1.35), resourceVersions are decimal numbers without leading zeros, of any length, which may be compared
    within a kind. Others, which old or foreign API servers may use, can only be compared for equality.
    """
    if one == other:
        return 0
    if not (_is_number(one) and _is_number(other)):
        return None
    return 1 if (len(one), one) > (len(other), other) else -1
