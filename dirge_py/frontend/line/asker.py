"""Asks the user questions as lines, one at a time, answered by a word and Enter."""

import asyncio
import difflib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

from dirge_py.frontend.line.streams import AnswerInterrupted, LineWriter, PlainLines
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.text import plural, visible, visible_code, visible_name
from dirge_py.slash.base import Choice
from dirge_py.types.errors import DirgeError
from dirge_py.types.questions import (
    PermissionAnswer,
    PermissionRequest,
    Question,
    QuestionAnswer,
    TrustOffer,
)
from dirge_py.types.tools import FileChange, Preview

if TYPE_CHECKING:
    from dirge_py.frontend.line.editor import TerminalLines


LineSource: TypeAlias = "PlainLines | TerminalLines"

_TRAILING = late_pattern(r"[ \t]+(?=\n|\Z)")
"""Invisible blanks at the end of a line; after a backslash they are part of a name."""
_NO_WORDS = late_pattern(r"(?:n|no|deny)(?:[ :,]+(?P<comment>\S.*))?", re.IGNORECASE | re.DOTALL)
Step: TypeAlias = Literal["wider", "rule", "command", "all"]
"""An answer after which something else is asked, or that answers the other questions, too."""
_ANSWER_WORDS: dict[str, Literal["once", "session", "always"] | Step] = {
    "y": "once",
    "yes": "once",
    "a": "session",
    "always": "always",
    "w": "wider",
    "r": "rule",
    "e": "command",
    "all": "all",
}
_BETWEEN_RULES = " ; "
"""Separates rules that the user writes; no command pattern contains it."""
GUARD_S = 0.4
"""An answer that comes sooner was typed before the question could be read."""
_MOST_LISTED = 30
_HASH_SHOWN = 12
Answer = TypeVar("Answer")


class PermissionPrompt:
    """A permission question for one request; `others` are asked after it."""

    def __init__(
        self, request: PermissionRequest, others: Sequence[PermissionRequest] = ()
    ) -> None:
        self.request = request
        self.others = others
        self.offers = list(request.offers)
        """The rules that may be stored; the user's own come last."""
        self.at = 0
        """Which of the offers "for this session" and "always" store."""

    @property
    def rules(self) -> Sequence[str]:
        """The rules that "for this session" and "always" store."""
        return self.offers[self.at].rules if self.offers else ()

    def use_own_rules(self, text: str) -> None:
        """Offer the rules in a line. Raises DirgeError if they can't be stored for this call."""
        if self.request.try_rules is not None:
            rules = [rule.strip() for rule in text.split(_BETWEEN_RULES) if rule.strip()]
            offer = self.request.try_rules(rules)
            self.offers = [*self.request.offers, offer]
            self.at = len(self.offers) - 1

    def lines(self, place: str = "") -> Iterator[str]:
        """The question. Nothing is cut, and invisible characters are spelled out."""
        request = self.request
        runs = any(claim.op == "execute" for claim in request.claims)
        where = f", in {visible_name(request.cwd)}" if request.cwd and runs else ""
        note = f", {request.preview.note}" if request.preview and request.preview.note else ""
        yield f"Question{place}: allow {visible_name(request.tool_name)}?{where}{note}"
        if request.warning:
            yield f"Warning: {visible(request.warning)}"
        if request.preview is not None:
            yield from _preview_lines(request.preview)
        yield from _reason_lines(request)
        for other in self.others:
            yield f"Next: allow {visible_name(other.tool_name)}?"
            if other.preview is not None:
                yield from _preview_lines(other.preview)
            yield from _reason_lines(other)
        yield from self.choices()

    def choices(self) -> Iterator[str]:
        """The possible answers, and the rules that they would store."""
        yield "y: allow once"
        if self.others:
            yield f"all: allow all {len(self.others) + 1} calls once"
        if self.offers:
            rules = ", ".join(visible_name(rule) for rule in self.rules)
            yield f"a: allow for this session, storing {rules}"
            if self.request.can_keep:
                yield f"always: allow always, storing the same in your settings: {rules}"
            if reach := self.offers[self.at].reach:
                yield f"   this rule covers: {visible_name(reach.words)}"
                if reach.also:
                    covered = "; ".join(map(visible_name, reach.also))
                    yield f"   earlier calls it covers: {covered}"
                if reach.still:
                    others = "; ".join(map(visible_name, reach.still))
                    yield f"   earlier calls it doesn't cover: {others}"
        if self.request.no_wider and self.at == 0:
            what = "no wider rule" if self.offers else "can be allowed only once"
            yield f"   {what}: {visible(self.request.no_wider)}"
        if len(self.offers) > 1:
            is_last = self.at + 1 == len(self.offers)
            yield f"w: {'the exact rule' if is_last else 'a wider rule'} instead"
        if self.offers:
            yield "r: write the rule yourself"
        if self.request.command:
            yield "e: write the command to run instead"
        yield "n: deny; words after it tell the model why"

    def read(self, line: str) -> PermissionAnswer | Step | None:
        """Return the answer in a line, or None. Only a single word allows, never a sentence."""
        words = line.strip()
        if found := _NO_WORDS.fullmatch(words):
            return PermissionAnswer(effect="deny", comment=(found["comment"] or "").strip())
        rules = tuple(self.rules) if self.at else ()
        match _ANSWER_WORDS.get(words.lower()):
            case "once":
                return PermissionAnswer(effect="allow")
            case "all" if self.others:
                return "all"
            case "session" if self.offers:
                return PermissionAnswer(effect="allow", remember="session", rules=rules)
            case "always" if self.offers and self.request.can_keep:
                return PermissionAnswer(effect="allow", remember="always", rules=rules)
            case "wider" if len(self.offers) > 1:
                self.at = (self.at + 1) % len(self.offers)
                return "wider"
            case "rule" if self.offers:
                return "rule"
            case "command" if self.request.command:
                return "command"
        return None


def _preview_lines(preview: Preview) -> Iterator[str]:
    if preview.changes:
        for change in preview.changes:
            yield from _change_lines(change)
    elif preview.kind == "diff":
        yield f"  {visible_name(preview.path)}"
        yield from (f"  {line}" for line in visible(preview.text).split("\n"))
    else:
        spelled = _TRAILING.sub(lambda match: f"<{plural(len(match[0]), 'space')}>", preview.text)
        yield from (f"  | {line}" for line in visible(spelled).split("\n"))


def _change_lines(change: FileChange) -> Iterator[str]:
    """Yield the complete change to a file; the text of a preview may be shortened."""
    what = "new file" if change.before is None else "removed" if change.after is None else "changed"
    moved = f", moved from {visible_name(change.moved_from)}" if change.moved_from else ""
    yield f"  {visible_name(change.path)}: {what}{moved}"
    before, after = _lines_of(change.before), _lines_of(change.after)
    for line in list(difflib.unified_diff(before, after, lineterm=""))[2:]:
        yield f"  {line[:1]}{visible_code(line[1:])}"


def _lines_of(text: str | None) -> list[str]:
    """The lines of a file, with a mark where the last one does not end."""
    *lines, last = (text or "").split("\n")
    return [*lines, f"{last}<no newline>"] if last else lines


def _reason_lines(request: PermissionRequest) -> Iterator[str]:
    """One line for each claim that asks. The preview shows the others."""
    preview = request.preview
    asking = [claim for claim in request.claims if claim.effect != "allow"]
    for claim in asking if asking and preview is not None else request.claims:
        words = claim.resource if claim.op == "execute" else f"{claim.op} {claim.resource}"
        is_shown = preview and claim.resource.strip() in (preview.text.strip(), preview.path)
        yield f"  why: {'' if is_shown else f'{visible(words)}: '}{visible(claim.reason)}"


class LineAsker:
    """Asks the user in line mode; calls `on_stop` if they interrupt instead of answering."""

    def __init__(
        self,
        source: LineSource,
        writer: LineWriter,
        *,
        on_stop: Callable[[], object],
        on_asking: Callable[[bool], object],
        guard_s: float = GUARD_S,
    ) -> None:
        self._source = source
        self._writer = writer
        self._on_stop = on_stop
        self._on_asking = on_asking
        self._guard_s = 0.0 if source.is_script else guard_s
        self._turn = asyncio.Lock()

    async def permission(self, requests: Sequence[PermissionRequest]) -> Sequence[PermissionAnswer]:
        """One answer per request, in order; "deny" at the end of the input and for Ctrl+C."""
        answers: list[PermissionAnswer] = []
        async with self._turn:
            for number, request in enumerate(requests, 1):
                place = f" {number} of {len(requests)}" if len(requests) > 1 else ""
                others = requests[number:]
                answer = await self._permission(PermissionPrompt(request, others), place)
                if answer == "all":
                    return [*answers, *[PermissionAnswer(effect="allow")] * (len(others) + 1)]
                if answer is None:
                    break
                answers.append(answer)
        return [*answers, *[PermissionAnswer(effect="deny")] * (len(requests) - len(answers))]

    async def question(self, questions: Sequence[Question]) -> Sequence[QuestionAnswer] | None:
        """One answer per question, in order; None if the user cancels."""
        answers: list[QuestionAnswer] = []
        async with self._turn:
            for question in questions:
                answer = await self._question(question)
                if answer is None:
                    return None
                answers.append(answer)
        return answers

    async def trust(self, offer: TrustOffer) -> bool:
        """Whether the user trusts exactly these files; only the full word `yes` does."""
        async with self._turn:
            count = plural(len(offer.files), "file")
            self._writer.line(f"Question: trust this project? {visible_name(offer.project)}")
            self._writer.line(f"{count} of it would be read as settings or instructions, or run:")
            for file in offer.files:
                facts = f"{file.kind}, {file.size:,} bytes, {file.sha256[:_HASH_SHOWN]}"
                self._writer.line(f"  {visible_name(file.path)}: {facts}, {file.state}")
            self._writer.line("Without trust none of them is used; everything else works.")
            answers = {"yes": True, "n": False, "no": False}
            label = "yes trusts exactly these, no leaves it restricted: "
            return bool(await self._read(label, lambda line: answers.get(line.strip().lower())))

    async def pick(self, title: str, choices: Sequence[Choice], *, current: str = "") -> str | None:
        """The id of one choice; None if the user cancels."""
        async with self._turn:
            self._list(title, choices, current)

            def read(line: str) -> str | None:
                matching = _matching(line.strip(), choices)
                if len(matching) == 1:
                    return matching[0].id
                heading = f"{title}: {len(matching)} found" if matching else title
                self._list(heading, matching, current)
                return None

            return await self._read("number or text, Enter for none: ", read, empty=True)

    async def _permission(
        self, prompt: PermissionPrompt, place: str
    ) -> PermissionAnswer | Literal["all"] | None:
        self._writer.line("\n".join(prompt.lines(place)))
        while True:
            answer: PermissionAnswer | Step | None = await self._read("answer: ", prompt.read)
            if answer is None or answer == "all" or isinstance(answer, PermissionAnswer):
                return answer
            if answer == "rule":
                text = await self._read("rule to store, Enter for none: ", str, empty=True)
                self._use_own_rules(prompt, text or "")
            elif answer == "command":
                text = await self._read("command to run instead: ", str, empty=True)
                if text and text.strip() != prompt.request.command:
                    return PermissionAnswer(effect="allow", command=text.strip())
            self._writer.line("\n".join(prompt.choices()))

    def _use_own_rules(self, prompt: PermissionPrompt, text: str) -> None:
        try:
            if text.strip():
                prompt.use_own_rules(text)
        except DirgeError as error:
            self._writer.line(error.in_one_line())

    async def _question(self, question: Question) -> QuestionAnswer | None:
        header = f"{visible(question.header)}. " if question.header else ""
        self._writer.line(f"Question: {header}{visible(question.question)}")
        for number, option in enumerate(question.options, 1):
            detail = f" ({visible(option.description)})" if option.description else ""
            self._writer.line(f"  {number}: {visible(option.label)}{detail}")
        is_open = question.is_open or not question.options
        ways = ["numbers, such as 1 3" if question.is_multiple else "a number"] * bool(
            question.options
        )
        label = f"{' or '.join([*ways, *['your own words'] * is_open])}; Enter for no answer: "
        read = partial(_answer_in, question=question, is_open=is_open)
        return await self._read(label, read, empty=True)

    def _list(self, title: str, choices: Sequence[Choice], current: str) -> None:
        self._writer.line(f"{title}:")
        for number, choice in enumerate(choices[:_MOST_LISTED], 1):
            now = ", now" if choice.id == current else ""
            detail = f" ({choice.detail})" if choice.detail else ""
            self._writer.line(f"  {number}: {choice.label}{detail}{now}")
        if len(choices) > _MOST_LISTED:
            self._writer.line(f"  {len(choices) - _MOST_LISTED} more; type part of a name")

    async def _read(
        self, label: str, read: Callable[[str], Answer | None], *, empty: bool = False
    ) -> Answer | None:
        """Ask until there is an answer; None at the end, or (`empty`) for an empty line."""
        self._on_asking(True)
        is_first = True
        try:
            while True:
                shown_s = time.monotonic()
                line = await self._source.answer(label)
                if line is None or (empty and not line.strip()):
                    return None
                if time.monotonic() - shown_s < self._guard_s:
                    self._keep(line, "That came too fast to be an answer. Answer again.")
                    continue
                is_rest, is_first = self._source.has_set_aside and is_first, False
                answer = read(line)
                is_denial = isinstance(answer, PermissionAnswer) and answer.effect == "deny"
                if is_rest and answer is not None and not is_denial:
                    # The rest of a sentence may be a word that would be an answer.
                    self._keep(line, "You were typing when the question appeared. Answer again.")
                elif answer is not None:
                    return answer
                elif self._source.is_script:
                    # Most likely a prompt: keep it, and don't allow anything.
                    self._source.put_back(line)
                    self._writer.line("No answer; denied.")
                    return None
                else:
                    what = f"{visible(line.strip())!r} isn't an answer to this question."
                    kept = f"{what} dirge keeps it as a draft."
                    self._keep(line, kept if line.strip() else "Type one of the answers above.")
        except AnswerInterrupted:
            self._on_stop()
            return None
        finally:
            self._on_asking(False)

    def _keep(self, line: str, note: str) -> None:
        """Keep a line that isn't an answer as a draft, and say why."""
        self._writer.line(note)
        if line.strip():
            self._source.put(line)


def _matching(words: str, choices: Sequence[Choice]) -> Sequence[Choice]:
    """The choice that a number, an id or a label names; else all that match."""
    if words.isdecimal() and 1 <= int(words) <= len(choices):
        return [choices[int(words) - 1]]
    wanted = words.lower().split()
    exact = [choice for choice in choices if words in (choice.id, choice.label)]
    matching = [c for c in choices if all(w in f"{c.id} {c.label}".lower() for w in wanted)]
    return exact[:1] or matching


def _answer_in(line: str, question: Question, *, is_open: bool) -> QuestionAnswer | None:
    labels, line = [option.label for option in question.options], line.strip()
    numbers = line.replace(",", " ").split()
    if labels and all(n.isdecimal() and 1 <= int(n) <= len(labels) for n in numbers):
        chosen = sorted({int(n) - 1 for n in numbers})
        if question.is_multiple or len(chosen) == 1:
            return QuestionAnswer(chosen=tuple(labels[at] for at in chosen))
    if named := [label for label in labels if label.lower() == line.lower()]:
        return QuestionAnswer(chosen=(named[0],))
    return QuestionAnswer(text=line) if is_open and line else None
