"""The permission question in line mode, and the lines that answer it."""

from hypothesis import given
from hypothesis import strategies as st

from dirge_py.frontend.line.asker import PermissionPrompt
from dirge_py.lib.text import clean
from dirge_py.types.questions import AskedClaim, PermissionAnswer, PermissionRequest, RuleOffer
from dirge_py.types.tools import FileChange, Preview

COMMAND = AskedClaim(
    op="execute", resource="git push", effect="ask", policy="mode", reason="it leaves the machine"
)


def request(**more: object) -> PermissionRequest:
    facts: dict[str, object] = {
        "call_id": "c1",
        "tool_name": "bash",
        "claims": (COMMAND,),
        "offers": (RuleOffer(("execute:git push",)), RuleOffer(("execute:git push *",))),
        "can_keep": True,
        "preview": Preview(kind="command", text="git push"),
        "cwd": "/shop",
    }
    return PermissionRequest(**(facts | more))  # type: ignore[arg-type]


def test_permission_prompt_shows_call_reason_and_rules_to_store() -> None:
    assert list(PermissionPrompt(request()).lines(" 1 of 2")) == [
        "Question 1 of 2: allow bash?, in /shop",
        "  | git push",
        "  why: it leaves the machine",
        "y: allow once",
        "a: allow for this session, storing execute:git push",
        "always: allow always, storing the same in your settings: execute:git push",
        "w: a wider rule instead",
        "r: write the rule yourself",
        "n: deny; words after it tell the model why",
    ]


def test_wider_rule_is_shown_before_it_is_stored() -> None:
    asked = PermissionPrompt(request())

    assert asked.read("w") == "wider"

    assert "a: allow for this session, storing execute:git push *" in list(asked.choices())
    wider = ("execute:git push *",)
    assert asked.read("a") == PermissionAnswer(effect="allow", remember="session", rules=wider)


def test_rule_choices_are_no_answer_without_a_grant() -> None:
    asked = PermissionPrompt(request(offers=()))
    assert [asked.read(word) for word in ("a", "always", "w")] == [None, None, None]


def test_diff_is_shown_in_full_even_if_preview_was_shortened() -> None:
    change = FileChange(path="/shop/a.txt", before="one\ntwo\n", after="one\n2\nlast")
    preview = Preview(kind="diff", text="…", path="/shop/a.txt", changes=(change,))

    shown = list(PermissionPrompt(request(preview=preview)).lines())

    assert shown[1:7] == [
        "  /shop/a.txt: changed",
        "  @@ -1,2 +1,3 @@",
        "   one",
        "  -two",
        "  +2",
        "  +last<no newline>",
    ]


@given(st.text())
def test_only_offered_words_allow_a_call(line: str) -> None:
    answer = PermissionPrompt(request()).read(line)
    allows = isinstance(answer, PermissionAnswer) and answer.effect == "allow"
    assert allows == (line.strip().lower() in ("y", "yes", "a", "always"))


@given(st.text(alphabet=st.sampled_from("ab \t\n\r\x1b[2J\x9b\u202e\u200b\xa0é")))
def test_text_of_call_cannot_imitate_prompt_or_hide_characters(text: str) -> None:
    asked = PermissionPrompt(request(preview=Preview(kind="command", text=text), tool_name=text))

    lines = list(asked.lines())

    assert all(line == clean(line) and "\n" not in line for line in lines)
    assert lines[0].startswith("Question: allow ")
