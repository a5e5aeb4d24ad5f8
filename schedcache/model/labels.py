"""Label selectors and node selectors, compiled once and matched many times.

Semantics of `k8s.io/apimachinery/pkg/labels` and `k8s.io/component-helpers/scheduling/corev1/nodeaffinity` 1.37.
"""

import re
from collections.abc import Mapping

import msgspec

IN = "In"
NOT_IN = "NotIn"
EXISTS = "Exists"
DOES_NOT_EXIST = "DoesNotExist"
GT = "Gt"
LT = "Lt"
_SET_OPERATORS = frozenset({IN, NOT_IN, EXISTS, DOES_NOT_EXIST})
_LABEL_VALUE = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_LABEL_VALUE_BYTES = 63
_label_value = re.compile(_LABEL_VALUE).fullmatch
_TOO_LONG = f"must be no more than {_LABEL_VALUE_BYTES} bytes"
_NO_LABEL_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    f"'{_LABEL_VALUE}')"
)


class Requirement(msgspec.Struct, frozen=True, order=True, gc=False):
    """One expression over labels. NotIn also holds if the key is missing.

    `values` are sorted in label selectors, so that equal ones are equal, and as written in node selectors.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return value is not None and self._compares(value)
        return False

    def _compares(self, value: str) -> bool:
        # A label that is not an integer satisfies neither Gt nor Lt.
        bound, number = parse_int(self.values[0]) if len(self.values) == 1 else None, parse_int(value)
        if bound is None or number is None:
            return False
        return number > bound if self.operator == GT else number < bound

    def problem(self, *, for_nodes: bool = False) -> str:
        """Why Kubernetes would refuse the expression, or "" if it is valid."""
        if for_nodes and (unsound := next((v for v in self.values if label_value_problems(v)), None)) is not None:
            return f"{unsound!r} cannot be the value of label {self.key!r}"
        if self.operator in (GT, LT) and for_nodes:
            sound = len(self.values) == 1 and parse_int(self.values[0]) is not None
            return "" if sound else f"operator {self.operator} on {self.key!r} needs exactly one integer value"
        if self.operator not in _SET_OPERATORS:
            return f"{self.operator!r} on {self.key!r} is not a selector operator"
        if self.operator in (IN, NOT_IN):
            return "" if self.values else f"operator {self.operator} on {self.key!r} needs at least one value"
        return f"operator {self.operator} on {self.key!r} takes no values" if self.values else ""


class LabelSelector(msgspec.Struct, frozen=True, gc=False):
    """A conjunction of expressions over labels. An empty one matches everything; a missing selector is None and matches nothing."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(r.matches(labels) for r in self.requirements)

    @property
    def empty(self) -> bool:
        return not self.requirements

    def problem(self) -> str:
        return next(filter(None, (r.problem() for r in self.requirements)), "")


class NodeSelectorTerm(msgspec.Struct, frozen=True, gc=False):
    """Expressions over a node's labels and fields (only metadata.name), all of which must hold; an empty term matches no node."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    @property
    def empty(self) -> bool:
        return not (self.expressions or self.fields)

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        if self.empty:
            return False
        fields = {"metadata.name": node_name}
        return all(r.matches(labels) for r in self.expressions) and all(r.matches(fields) for r in self.fields)

    def problem(self) -> str:
        unsound = (r.problem(for_nodes=True) for r in self.expressions)
        return next(filter(None, unsound), "") or next(filter(None, map(_field_problem, self.fields)), "")


class PreferredSchedulingTerm(msgspec.Struct, frozen=True, gc=False):
    """A node selector term that is worth `weight` (1..100) if it matches."""

    weight: int
    preference: NodeSelectorTerm


def _field_problem(requirement: Requirement) -> str:
    if requirement.operator not in (IN, NOT_IN):
        return f"{requirement.operator!r} on field {requirement.key!r} is not one of In, NotIn"
    return "" if len(requirement.values) == 1 else f"field {requirement.key!r} needs exactly one value"


def label_value_problems(text: str) -> list[str]:
    """Why a label cannot have the value, in Kubernetes' words; empty if it can."""
    problems = [_TOO_LONG] if len(text.encode()) > _LABEL_VALUE_BYTES else []
    return problems if _label_value(text) else [*problems, _NO_LABEL_VALUE]


def parse_int(text: str) -> int | None:
    """A base-10 64-bit integer as Go's strconv.ParseInt reads it, or None."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def selector_from_labels(match_labels: Mapping[str, str]) -> LabelSelector:
    """The selector that requires all of these labels."""
    return LabelSelector(tuple(Requirement(k, IN, (v,)) for k, v in sorted(match_labels.items())))
