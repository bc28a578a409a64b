"""The phases of a plan: the prompt and the tools of each, and what follows a review."""

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from dirge_py.context.prompt_text import quote_text
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import cut_middle
from dirge_py.plan.verdict_check import CheckedVerdict
from dirge_py.types.events import PhaseName

_FOLDER = Path(__file__).parent / "prompts"
_LOOKING = ("read", "read_minified", "grep", "glob", "find_files", "list_dir", "lsp")
_SYMBOLS = ("list_symbols", "get_symbol_body", "find_definition", "find_callers", "find_callees")

# Names that no tool has are passed over. What `bash` may do is the room's to say.
EXPLORE_TOOLS: tuple[str, ...] = (*_LOOKING, "repo_overview", *_SYMBOLS, "bash")
PLAN_TOOLS: tuple[str, ...] = EXPLORE_TOOLS
REVIEW_TOOLS: tuple[str, ...] = (*_LOOKING, "bash")
_MAX_FINDINGS_CHARS = 60_000
_MAX_CHANGES_CHARS = 24_000
_MAX_CLAIMS_CHARS = 8_000
_MAX_FEEDBACK_CHARS = 24_000
"""Characters of what one phase hands to the next. Requests and plans are handed on whole."""
_CUT = "\n[… left out: it is too long …]\n"


@dataclass(frozen=True, slots=True)
class Approved:
    """The work is done, and was seen to be."""


@dataclass(frozen=True, slots=True)
class Retry:
    """The work goes back to whoever implements it, with `feedback`."""

    feedback: str


@dataclass(frozen=True, slots=True)
class Exhausted:
    """It is not done, and no cycle is left."""


NextStep: TypeAlias = Approved | Retry | Exhausted


def next_review_step(judgement: CheckedVerdict, text: str, cycles_left: int) -> NextStep:
    """What follows on a review whose report was `text`. A retry is always told something."""
    if judgement.is_approved:
        return Approved()
    if cycles_left <= 0:
        return Exhausted()
    return Retry(_feedback(judgement, text))


def _feedback(judgement: CheckedVerdict, text: str) -> str:
    if judgement.missing.strip():
        return judgement.missing
    unmet = [f"- {requirement}: {why}" for requirement, why in judgement.not_verified]
    if judgement.has_verdict and judgement.problem and unmet:
        return "\n".join(["The review says DONE, but this was not shown to be met:", *unmet])
    return text if text.strip() else f"The review gave no reasons ({judgement.problem})."


def explore_prompt(request: str) -> str:
    return _prompt("explore", REQUEST=quote_text("request", request))


def plan_prompt(request: str, findings: str, *, previous: str = "", comment: str = "") -> str:
    """`previous` is a plan that was turned down, `comment` what the person said of it."""
    again = ""
    if previous.strip() or comment.strip():
        again = _prompt(
            "plan_again",
            PREVIOUS=quote_text("earlier plan", previous),
            COMMENT=quote_text("comment", comment),
        )
    return _prompt(
        "plan",
        REQUEST=quote_text("request", request),
        FINDINGS=quote_text("findings", _cut(findings, _MAX_FINDINGS_CHARS)),
        AGAIN=f"\n{again}\n" if again else "",
    )


def implement_prompt(request: str, plan: str) -> str:
    """Begins with the request as it was typed, for that is what lists of sessions show."""
    return _prompt("implement", REQUEST=request, PLAN=quote_text("plan", plan))


def carry_on_prompt(request: str, plan: str, *, missing: str = "") -> str:
    """For a run that cannot just be continued; what it was told before may be gone.

    `missing` is what the last review found, if there was one.
    """
    words = _prompt(
        "carry_on", REQUEST=quote_text("request", request), PLAN=quote_text("plan", plan)
    )
    return f"{words}\n\n{retry_prompt(missing)}" if missing.strip() else words


def retry_prompt(missing: str) -> str:
    return _prompt("retry", MISSING=quote_text("review", _cut(missing, _MAX_FEEDBACK_CHARS)))


def review_prompt(request: str, plan: str, *, claims: str, changes: str) -> str:
    """`claims`: the commands that the implementer ran. `changes`: a summary of the difference."""
    return _prompt(
        "review",
        REQUEST=quote_text("request", request),
        PLAN=quote_text("plan", plan),
        CLAIMS=quote_text("claims", _cut(claims, _MAX_CLAIMS_CHARS)),
        CHANGES=quote_text("changes", _cut(changes, _MAX_CHANGES_CHARS)),
    )


def verdict_again_prompt(problem: str) -> str:
    """Asks for the verdict alone; `problem` is what `parse_verdict` said of the last one."""
    return _prompt("verdict_again", PROBLEM=problem.rstrip("."))


def report_now_prompt(phase: PhaseName) -> str:
    """Asks a phase that has used up its turns for its report as things stand."""
    return _prompt(f"report_now_{phase}")


def _cut(text: str, most: int) -> str:
    return cut_middle(text, most, _CUT, tail=0.3)


def _prompt(name: str, **values: str) -> str:
    return fill_template(_text(name), values)


@functools.cache
def _text(name: str) -> str:
    return (_FOLDER / f"{name}.md").read_text(encoding="utf-8").strip()


_PLACE = re.compile(r"\{\{([A-Z][A-Z0-9_]*)\}\}")


def fill_template(template: str, values: Mapping[str, str]) -> str:
    """`template` with each `{{NAME}}` replaced by its value, in one pass from left to right.

    What a value holds is never looked at again, so a request that speaks of `{{PLAN}}` stays as it
    was typed. Names that have no value, and places that are not closed, stay too.
    """
    return _PLACE.sub(lambda place: values.get(place[1], place[0]), template)
