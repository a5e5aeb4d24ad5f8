"""docs/faults.md has the rows that are tested, and each row has a test."""

import json

from tests.faults import page
from tests.faults.rows import INVARIANTS, ROWS
from tests.packaging import pages


def test_the_tables_are_what_make_docs_writes():
    text = pages.text("docs/faults.md")
    assert page.written(text) == text, "docs/faults.md is not what the rows say: run make docs"


def test_each_row_has_a_test_and_each_test_a_row():
    assert page.tests().keys() == ROWS.keys()


def test_each_invariant_is_checked_by_some_row():
    assert {one for row in ROWS.values() for one in row.invariants} | {"I6"} == set(INVARIANTS)


def test_what_was_measured_is_of_tests_that_exist():
    known = {(row, file, name) for row, found in page.tests().items() for file, name, _ in found}
    for one in json.loads(page.RESULTS.read_text())["results"]:
        file, _, name = one["test"].rpartition("::")
        assert (one["row"], file.rpartition("/")[2], name.partition("[")[0]) in known
