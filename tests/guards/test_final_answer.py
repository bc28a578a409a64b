"""What the wording of a final answer reports."""

import pytest

from dirge_py.guards.final_answer import asks_person, reports_failure, reports_no_check


@pytest.mark.parametrize(
    "text",
    [
        "Do you want me to delete it?",
        "Both work. Which one?\n\n1. the first\n2. the second",
        "Which one?\n- a\n- b",
        "Should I continue? Let me know.",
        "I did **that**. *Shall I run `rm`?*",
        "Soll ich weitermachen?",
    ],
)
def test_answer_that_asks_the_user_is_recognized(text):
    assert asks_person(text)


@pytest.mark.parametrize(
    "text",
    ["", "Done.", "Why? It was empty.\n\nNow it is full.", "See https://a.b/?c=d", "Use `a?.b`."],
)
def test_answer_without_a_question_to_the_user_is_recognized(text):
    assert not asks_person(text)


@pytest.mark.parametrize(
    "text",
    [
        "test_add still fails: it expects 6.",
        "mypy reports 3 errors, as before.",
        "It timed out.",
        "I couldn't write the file.",
        "One test is failing.",
        "The tests don't pass yet.",
        "There is no such file.",
        "It is gone: nothing to do.",
    ],
)
def test_answer_that_reports_a_failure_is_recognized(text):
    assert reports_failure(text)


@pytest.mark.parametrize(
    "text",
    [
        "All tests pass now.",
        "Fixed the failing test.",
        "I fixed the test that failed.",
        "No tests fail any more; the build no longer fails.",
        "5 passed, 0 failed.",
        "The edit failed. Let me try again.",
        "I stop.",
    ],
)
def test_answer_without_a_failure_report_is_recognized(text):
    assert not reports_failure(text)


@pytest.mark.parametrize(
    "text",
    [
        "I have not run the tests.",
        "I haven't been able to test it.",
        "It is untested.",
        "There are no tests.",
        "This project has no test suite.",
        "node isn't installed here.",
        "I changed it without running it.",
    ],
)
def test_answer_that_reports_missing_checks_is_recognized(text):
    assert reports_no_check(text)


@pytest.mark.parametrize(
    "text",
    [
        "Done.",
        "I tested it.",
        "No tests fail.",
        "It no longer checks for None.",
        "I have not run the tests. Let me run them now.",
    ],
)
def test_answer_without_a_report_of_missing_checks_is_recognized(text):
    assert not reports_no_check(text)
