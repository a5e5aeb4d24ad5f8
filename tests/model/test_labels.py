"""Label and node selectors: what each operator means, and which expressions Kubernetes would refuse."""

import pytest

from schedcache.model import LabelSelector, NodeSelectorTerm, Requirement, selector_from_labels
from schedcache.model.labels import parse_int

LABELS = {"app": "web", "size": "10", "empty": ""}


@pytest.mark.parametrize(
    ("key", "operator", "values", "matches"),
    [
        ("app", "In", ("db", "web"), True),
        ("app", "In", ("db",), False),
        ("none", "In", ("web",), False),
        ("app", "NotIn", ("db",), True),
        ("app", "NotIn", ("web",), False),
        ("none", "NotIn", ("web",), True),
        ("empty", "Exists", (), True),
        ("none", "Exists", (), False),
        ("none", "DoesNotExist", (), True),
        ("empty", "DoesNotExist", (), False),
        ("size", "Gt", ("9",), True),
        ("size", "Gt", ("10",), False),
        ("size", "Lt", ("11",), True),
        ("size", "Lt", ("10",), False),
        ("app", "Gt", ("1",), False),
        ("none", "Lt", ("1",), False),
        ("size", "Gt", ("x",), False),
        ("size", "Gt", ("1", "2"), False),
        ("app", "Nonsense", ("web",), False),
    ],
)
def test_operators(key, operator, values, matches):
    assert Requirement(key, operator, values).matches(LABELS) is matches


@pytest.mark.parametrize(
    ("requirement", "problem", "problem_for_nodes"),
    [
        (Requirement("a", "In", ("x",)), "", ""),
        (Requirement("a", "In"), "at least one value", "at least one value"),
        (Requirement("a", "NotIn"), "at least one value", "at least one value"),
        (Requirement("a", "Exists", ("x",)), "takes no values", "takes no values"),
        (Requirement("a", "DoesNotExist"), "", ""),
        (Requirement("a", "Gt", ("1",)), "not a selector operator", ""),
        (Requirement("a", "Lt", ("x",)), "not a selector operator", "exactly one integer"),
        (Requirement("a", "Lt", ("1", "2")), "not a selector operator", "exactly one integer"),
        (Requirement("a", "in", ("x",)), "not a selector operator", "not a selector operator"),
    ],
)
def test_problems(requirement, problem, problem_for_nodes):
    for found, expected in ((requirement.problem(), problem), (requirement.problem(for_nodes=True), problem_for_nodes)):
        assert expected in found
        assert bool(found) is bool(expected)
        assert not found or "'a'" in found


def test_a_selector_is_a_conjunction():
    both = LabelSelector((Requirement("app", "In", ("web",)), Requirement("size", "Exists")))
    assert both.matches(LABELS)
    assert not both.matches({"app": "web"})
    assert not both.empty
    assert LabelSelector().empty
    assert LabelSelector().matches({})
    assert both.problem() == ""
    assert "at least one" in LabelSelector((Requirement("ok", "Exists"), Requirement("bad", "In"))).problem()


def test_a_selector_from_labels_asks_for_each_in_one_order():
    assert selector_from_labels({"b": "2", "a": "1"}) == selector_from_labels({"a": "1", "b": "2"})
    assert selector_from_labels({"app": "web"}).matches(LABELS)
    assert not selector_from_labels({"app": "web", "x": "y"}).matches(LABELS)


class TestNodeSelectorTerm:
    def test_looks_at_labels_and_the_name(self):
        term = NodeSelectorTerm((Requirement("app", "Exists"),), (Requirement("metadata.name", "In", ("n1",)),))
        assert term.matches(LABELS, "n1")
        assert not term.matches(LABELS, "n2")
        assert not term.matches({}, "n1")

    def test_without_expressions_matches_no_node(self):
        assert NodeSelectorTerm().empty
        assert not NodeSelectorTerm().matches(LABELS, "n1")

    def test_tells_its_first_problem(self):
        bad = Requirement("x", "In")
        assert NodeSelectorTerm((Requirement("a", "Gt", ("1",)),)).problem() == ""
        assert NodeSelectorTerm((Requirement("a", "Exists"), bad)).problem() == bad.problem(for_nodes=True) != ""

    @pytest.mark.parametrize("value", ["-5", " 1", "a b", "x" * 64, "ends-"])
    def test_values_that_no_label_can_have(self, value):
        assert NodeSelectorTerm((Requirement("a", "In", (value,)),)).problem()
        assert not NodeSelectorTerm((Requirement("a", "In", ("",)),)).problem()

    def test_fields_take_one_value_with_in_or_not_in(self):
        for requirement in (Requirement("x", "In"), Requirement("x", "In", ("a", "b")), Requirement("x", "Exists")):
            assert NodeSelectorTerm((), (requirement,)).problem()
        assert not NodeSelectorTerm((), (Requirement("metadata.name", "NotIn", ("a",)),)).problem()


@pytest.mark.parametrize(
    ("text", "number"),
    [("7", 7), ("+7", 7), ("-7", -7), ("007", 7), ("", None), ("+", None), ("1.0", None), ("1e3", None), (" 1", None),
     ("9223372036854775807", 2**63 - 1), ("9223372036854775808", None), ("-9223372036854775808", -(2**63)),
     ("-9223372036854775809", None), ("\u0661", None), ("\u00b2", None)],
)  # fmt: skip
def test_integers_of_labels(text, number):
    assert parse_int(text) == number
