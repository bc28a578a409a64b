"""A permission question as lines: the call in full, why it asks, and what each answer stores."""

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from dirge_py.lib.text import visible, visible_code, visible_name
from dirge_py.types.questions import AskedClaim, PermissionAnswer, PermissionRequest, Reach
from dirge_py.types.tools import FileChange

_TRAILING = re.compile(r"[ \t]+(?=\n|\Z)")
"""Blanks at the end of a line, which nobody sees: after a backslash they are part of a name."""

_NO_WORDS = re.compile(r"(?:n|no|deny)(?:[ :,]+(?P<comment>\S.*))?", re.IGNORECASE | re.DOTALL)

_ANSWERS: dict[str, Literal["once", "session", "always", "wider"]] = {
    "y": "once",
    "yes": "once",
    "a": "session",
    "always": "always",
    "w": "wider",
}


@dataclass(slots=True)
class Asked:
    """One request on its way to its answer. `is_wide`: what would be stored are the wider rules."""

    request: PermissionRequest
    is_wide: bool = False

    def __post_init__(self) -> None:
        self.is_wide = not self.request.grant and bool(self.request.wider)

    @property
    def rules(self) -> Sequence[str]:
        """What "for this session" and "always" would store, exactly."""
        return self.request.wider if self.is_wide else self.request.grant

    @property
    def has_two_widths(self) -> bool:
        return bool(self.request.grant and self.request.wider)

    def lines(self, place: str = "") -> Iterator[str]:
        """The question. Nothing is cut, and what would not be seen is spelled out."""
        request = self.request
        runs = any(claim.op == "execute" for claim in request.claims)
        where = f", in {visible_name(request.cwd)}" if request.cwd and runs else ""
        note = f", {request.preview.note}" if request.preview and request.preview.note else ""
        yield f"Question{place}: allow {visible_name(request.tool_name)}?{where}{note}"
        if request.warning:
            yield f"Warning: {visible(request.warning)}"
        yield from _call(request)
        yield from _reasons(request)
        yield from self.choices()

    def choices(self) -> Iterator[str]:
        """The answers that count, and the rules that they would store."""
        yield "y: allow once"
        if self.rules:
            rules = ", ".join(visible_name(rule) for rule in self.rules)
            yield f"a: allow for this session, storing {rules}"
            if self.request.can_keep:
                yield f"always: allow always, storing the same in your settings: {rules}"
            reach = self.request.wider_reach if self.is_wide else self.request.grant_reach
            yield from _reach(reach)
        if self.has_two_widths:
            yield f"w: {'the exact rule' if self.is_wide else 'a wider rule'} instead"
        yield "n: deny; words after it tell the model why"

    def read(self, line: str) -> PermissionAnswer | Literal["wider"] | None:
        """What a line answers; None: it is no answer to this question.

        Only a word that stands alone allows: a sentence that begins with one does not.
        """
        words = line.strip()
        if found := _NO_WORDS.fullmatch(words):
            return PermissionAnswer(effect="deny", comment=(found["comment"] or "").strip())
        match _ANSWERS.get(words.lower()):
            case "once":
                return PermissionAnswer(effect="allow")
            case "session" if self.rules:
                return PermissionAnswer(effect="allow", remember="session", is_wide=self.is_wide)
            case "always" if self.rules and self.request.can_keep:
                return PermissionAnswer(effect="allow", remember="always", is_wide=self.is_wide)
            case "wider" if self.has_two_widths:
                self.is_wide = not self.is_wide
                return "wider"
        return None


def _call(request: PermissionRequest) -> Iterator[str]:
    preview = request.preview
    if preview is None:
        return
    if preview.changes:
        for change in preview.changes:
            yield from _change(change)
    elif preview.kind == "diff":
        yield f"  {visible_name(preview.path)}"
        yield from (f"  {line}" for line in visible(preview.text).split("\n"))
    else:
        shown = visible(_TRAILING.sub(_counted, preview.text))
        yield from (f"  | {line}" for line in shown.split("\n"))


def _change(change: FileChange) -> Iterator[str]:
    """What becomes of one file, whole: the text of a preview may have been shortened."""
    what = "new file" if change.before is None else "removed" if change.after is None else "changed"
    moved = f", moved from {visible_name(change.moved_from)}" if change.moved_from else ""
    yield f"  {visible_name(change.path)}: {what}{moved}"
    before, after = _lines_of(change.before), _lines_of(change.after)
    for line in list(difflib.unified_diff(before, after, lineterm=""))[2:]:
        yield f"  {line[:1]}{visible_code(line[1:])}"


def _lines_of(text: str | None) -> list[str]:
    """Lines with their ends made visible where they are not plain newlines."""
    lines = (text or "").split("\n")
    if lines[-1] == "":
        return lines[:-1]
    return [*lines[:-1], f"{lines[-1]}<no newline>"]


def _counted(blanks: re.Match[str]) -> str:
    return f"<{len(blanks[0])} blank{'s' * (len(blanks[0]) != 1)}>"


def _reasons(request: PermissionRequest) -> Iterator[str]:
    """One line for each part that asks. The parts that do not are seen in the whole."""
    asking = [claim for claim in request.claims if claim.effect != "allow"]
    for claim in asking if asking and request.preview is not None else request.claims:
        yield f"  why: {_part(claim, request)}{visible(claim.reason)}"


def _part(claim: AskedClaim, request: PermissionRequest) -> str:
    preview = request.preview
    if preview and claim.resource.strip() in (preview.text.strip(), preview.path):
        return ""
    words = claim.resource if claim.op == "execute" else f"{claim.op} {claim.resource}"
    return f"{visible(words)}: "


def _reach(reach: Reach | None) -> Iterator[str]:
    if reach is None:
        return
    yield f"   would match: {visible_name(reach.words)}"
    if reach.also:
        yield f"   also, of this session: {'; '.join(map(visible_name, reach.also))}"
    if reach.still:
        yield f"   but not: {'; '.join(map(visible_name, reach.still))}"
