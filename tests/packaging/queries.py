"""Queries of Prometheus, taken apart: which series they choose, and which labels they need."""

from collections.abc import Iterator
from typing import NamedTuple

import promql_parser

FROM_PROMETHEUS = {"namespace", "job", "pod", "instance"}
"""Labels that Prometheus adds to every series of a pod."""


class Chosen(NamedTuple):
    """A selector: the metric, and the labels it matches with operator and value."""

    metric: str
    labels: tuple[tuple[str, str, str], ...]


def parsed(query: str) -> promql_parser.Expr:
    """The tree of a query. Raises ValueError for what is none."""
    return promql_parser.parse(query.replace("$__rate_interval", "5m"))


def parts(tree: promql_parser.Expr) -> Iterator[promql_parser.Expr]:
    """The tree and all trees in it."""
    yield tree
    for name in ("lhs", "rhs", "expr", "param", "vector_selector", "vs"):
        if isinstance(inner := getattr(tree, name, None), promql_parser.Expr):
            yield from parts(inner)
    for inner in getattr(tree, "args", None) or ():
        yield from parts(inner)


def chosen(query: str) -> list[Chosen]:
    """What it reads."""
    return [
        Chosen(part.name, tuple((m.name, str(m.op), m.value) for m in part.matchers.matchers))
        for part in parts(parsed(query))
        if isinstance(part, promql_parser.VectorSelector)
    ]


def grouped(query: str) -> set[str]:
    """Labels by which it sums or joins."""
    found: set[str] = set()
    for part in parts(parsed(query)):
        modifier = getattr(part, "modifier", None)
        for labels in (getattr(modifier, "labels", None), getattr(getattr(modifier, "matching", None), "labels", None)):
            found.update(labels or ())
    return found
