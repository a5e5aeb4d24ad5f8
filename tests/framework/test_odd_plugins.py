"""Plugins that answer nonsense: the attempt fails and names them, and nonsense never passes for a verdict."""

import asyncio

import numpy as np
import pytest

from schedcache.framework import Code, CycleState, PluginError, Status, Verdicts, unschedulable
from tests.framework.world import make_framework, make_pod, make_snapshot, plugin, schedule

NO = unschedulable("no")
NAMES = ("n0", "n1", "n2")


def rows(view, number, kind=np.int16):
    return np.full(len(view), number, kind)


ODD = {
    "no verdicts": ({"filter": lambda *_: None}, "answered None, expected Verdicts(codes, table)"),
    "a status for all rows": ({"filter": lambda *_: NO}, "expected Verdicts(codes, table)"),
    "codes without a table": ({"filter": lambda state, pod, view: rows(view, 1)}, "expected Verdicts(codes, table)"),
    "a list of codes": ({"filter": lambda state, pod, view: Verdicts([0, 1, 0], (None, NO))}, "codes [0, 1, 0], expected an array"),
    "a matrix of codes": (
        {"filter": lambda state, pod, view: Verdicts(rows(view, 1).reshape(-1, 1), (None, NO))}, "one for each row"
    ),
    "codes that stand for nothing": ({"filter": lambda state, pod, view: Verdicts(rows(view, 1), (None,))}, "codes 1 to 1"),
    "an empty table": ({"filter": lambda state, pod, view: Verdicts(rows(view, 0), ())}, "table (), expected None"),
    "a status for those that pass": ({"filter": lambda state, pod, view: Verdicts(rows(view, 0), (NO, NO))}, "None for code 0"),
    "a pass for those that do not": (
        {"filter": lambda state, pod, view: Verdicts(rows(view, 1), (None, None))}, "table (None, None), expected"
    ),
    "a text for a status": ({"filter": lambda state, pod, view: Verdicts(rows(view, 1), (None, "no"))}, "table (None, 'no')"),
    "too few verdicts": ({"filter": lambda state, pod, view: Verdicts(rows(view, 0)[:1], (None,))}, "for 1 rows, expected"),
    "a code beyond the table": ({"filter": lambda state, pod, view: Verdicts(rows(view, 5), (None, NO))}, "codes 5 to 5"),
    "a negative code": ({"filter": lambda state, pod, view: Verdicts(rows(view, -1), (None, NO))}, "codes -1 to -1"),
    "half a code": ({"filter": lambda state, pod, view: Verdicts(rows(view, 0.5, float), (None, NO))}, "an array of integers"),
    "too few scores": ({"score": lambda state, pod, view: rows(view, 1, np.int64)[:1]}, "expected 3 integers"),
    "broken scores": ({"score": lambda state, pod, view: rows(view, 1.5, np.float64)}, "expected 3 integers"),
    "no scores": ({"score": lambda *_: None}, "answered None, expected 3 integers"),
    "no scores in the end": (
        {"score": lambda state, pod, view: rows(view, 1, np.int64), "normalize_score": lambda *_: None},
        "answered None, expected 3 integers",
    ),
    "no status before filters": ({"pre_filter": lambda *_: "x"}, "answered 'x', expected a Status or None"),
    "a set of names": ({"pre_filter": lambda *_: {"n0"}}, "answered {'n0'}, expected a Status"),
    "no status before scores": ({"pre_score": lambda *_: True}, "answered True, expected a Status or None"),
    "a truth value of a node": ({"per_node": True, "filter": lambda *_: False}, "answered False, expected a Status"),
    "half a point": ({"per_node": True, "score": lambda *_: 0.5}, "'float' object cannot be interpreted as an integer"),
}  # fmt: skip


@pytest.mark.parametrize("locality", [None, "row"])
@pytest.mark.parametrize(("methods", "said"), ODD.values(), ids=ODD)
def test_an_answer_that_is_none_fails_the_attempt(methods, said, locality):
    if locality and {"filter", "score"} & methods.keys():
        methods = {**methods, "filter_locality": locality, "score_locality": locality}
    scoring = {"score": lambda state, pod, view: rows(view, 0, np.int64)} if "pre_score" in methods else {}
    framework = make_framework(plugin("Odd", **methods, **scoring))
    with pytest.raises(PluginError) as caught:
        schedule(framework, make_pod("p"), make_snapshot(*NAMES))
    assert caught.value.plugin == "Odd"
    assert "Odd" in str(caught.value)
    assert said in str(caught.value)


def test_scores_of_a_small_type_do_not_overflow_in_the_total():
    small = plugin("Small", score=lambda state, pod, view: rows(view, 100, np.int8))
    framework = make_framework(small, weights={"Small": 3})
    assert schedule(framework, make_pod("p"), make_snapshot(*NAMES)).scores.total.tolist() == [300, 300, 300]


@pytest.mark.parametrize("point", ["reserve", "pre_bind", "bind"])
def test_an_answer_that_is_none_after_the_choice_is_an_error(point):
    async def answer(*_):
        return "yes"

    framework = make_framework(plugin("Odd", **{point: (lambda *_: "yes") if point == "reserve" else answer}))
    found = getattr(framework, f"run_{point}")(CycleState(), make_pod("p"), "n")
    status = found if point == "reserve" else asyncio.run(found)
    assert status.code is Code.ERROR
    assert "'yes', expected a Status or None" in status.message


def test_success_put_in_words_holds_no_pod_back():
    holds = dict(
        make_framework(
            plugin("Fine", pre_enqueue=lambda _pod: Status(Code.SUCCESS)), plugin("Shut", pre_enqueue=lambda _pod: NO)
        ).pre_enqueue_plugins()
    )
    assert (holds["Fine"](make_pod("p")), holds["Shut"](make_pod("p"))) == (False, True)


def test_a_plugin_for_one_node_at_a_time_explains_too():
    framework = make_framework(plugin("One", per_node=True, filter=lambda *_: NO, explain=lambda *_: "because"))
    [(found, _)] = framework.run_each_filter(CycleState(), make_pod("p"), make_snapshot(*NAMES))
    assert found.explain(None, None, None) == "because"
