"""What kube-scheduler says of preferred node affinity that it cannot read.

The API server lets such terms pass, since a cluster of one node never scores them; on any other the attempt ends in this
error (component-helpers' NewPreferredSchedulingTerms and apimachinery's labels.NewRequirement, 1.37).
"""

import json
from collections.abc import Iterator, Sequence

from schedcache.model import NodeSelectorTerm, PreferredSchedulingTerm, Requirement
from schedcache.model.labels import GT, LT, label_value_problems, parse_int

_NO_INTEGER = "for 'Gt', 'Lt' operators, the value must be an integer"


def preferred_terms_error(terms: Sequence[PreferredSchedulingTerm]) -> str:
    """The error's text, "" where all terms that weigh anything can be read."""
    found = [
        text
        for i, term in enumerate(terms)
        if term.weight and term.preference.problem()
        for text in _faults(f"[{i}].matchExpressions", term.preference)
    ]
    unique = list(dict.fromkeys(found))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]" if unique else ""


def _faults(path: str, term: NodeSelectorTerm) -> Iterator[str]:
    for i, requirement in enumerate(term.expressions):
        yield from _faults_of_values(f"{path}[{i}].values", requirement)


def _faults_of_values(path: str, requirement: Requirement) -> Iterator[str]:
    if requirement.operator in (GT, LT):
        for i, value in enumerate(requirement.values):
            if parse_int(value) is None:
                yield _invalid(f"{path}[{i}]", value, _NO_INTEGER)
    for i, value in enumerate(requirement.values):
        problems = label_value_problems(value)
        if problems:
            yield _invalid(f"{path}[{i}][{requirement.key}]", value, "; ".join(problems))


def _invalid(path: str, value: str, detail: str) -> str:
    return f"{path}: Invalid value: {json.dumps(value, ensure_ascii=False)}: {detail}"
