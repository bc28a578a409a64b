"""The reviewer's verdict: its schema, its parser, and its check against the recorded evidence.

Only a clear DONE counts. A command is no evidence if it can exit with 0 although a check in it
failed; see `hides_failures`.
"""

import json
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal, TypeAlias, cast, get_args

from dirge_py.agent_loop.answer_schema import AnswerSchema, CheckedValue
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.shell_lexer import (
    MAX_BYTES,
    NotPlain,
    Part,
    lex,
    without_here_documents,
    word_set,
)
from dirge_py.plan.evidence import UNFINISHED, Evidence, EvidenceLedger, describe_ending

Status: TypeAlias = Literal["verified", "not_verified", "cannot_verify"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChecklistItem:
    """One requirement and what the reviewer says about it."""

    requirement: str
    """The requirement, in the reviewer's words."""
    status: Status
    """The reviewer's opinion."""
    evidence: tuple[str, ...] = ()
    """The commands, or ids of evidence, that the reviewer names."""
    note: str = ""
    """Why, in the reviewer's words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewVerdict:
    """A verdict as the reviewer gave it."""

    is_done: bool
    """Whether the verdict is DONE and nothing is missing."""
    checklist: tuple[ChecklistItem, ...] = ()
    """The requirements."""
    is_itemised: bool = True
    """Whether the checklist names evidence for each item; otherwise it was plain text."""
    missing: str = ""
    """What the reviewer asks for."""


class _Unreadable(Exception):
    """The verdict can't be read; the message tells the reviewer why."""


_OPENING = late_pattern(r"^ {0,3}(`{3,})json[ \t]*\r?$", re.MULTILINE)
_MARKER = late_pattern(r"\A\s*(?:[-*+•]|\d{1,3}[.)])?\s*")
_CHECKED = late_pattern(r"\A(?:\[[xX]\]|[✓✔✅])\ufe0f?\s*")
_UNCHECKED = late_pattern(r"\A(?:\[ ?\]|[✗✘❌])\ufe0f?\s*")
_NOTHING = frozenset(("none", "nothing", "n/a", "na", "-", "--", "[]", "empty", "no"))


def parse_verdict(text: str) -> ReviewVerdict | str:
    """Return the last verdict, in a final block of JSON, or why it can't be read."""
    try:
        return _parse(text)
    except _Unreadable as problem:
        return str(problem)
    except RecursionError:
        return "its JSON is nested too deeply"


def _parse(text: str) -> ReviewVerdict:
    openings = list(_OPENING.finditer(text))
    if not openings:
        raise _Unreadable(
            "there is no block that begins with a line ```json and ends with a line ```"
        )
    *earlier, last = openings
    value, end = _decode(text, last)
    rest = text[end:].strip()
    if not rest.startswith(last[1]):
        raise _Unreadable("the block of JSON does not end with a line ```")
    if rest.strip("`"):
        raise _Unreadable("there is text after the block of JSON, which must come last")
    verdict = _read_verdict(value)
    if verdict.is_done and not all(_agrees(text, block) for block in earlier):
        raise _Unreadable("there are two verdicts, and they differ; give one")
    return verdict


def _agrees(text: str, opening: re.Match[str]) -> bool:
    """Whether an earlier block has no verdict, or DONE. One that can't be read doesn't agree."""
    try:
        value, _ = _decode(text, opening)
    except _Unreadable:
        return '"verdict"' not in text[opening.end() :].partition("```")[0]
    return not isinstance(value, dict) or value.get("verdict", "DONE") == "DONE"


def _decode(text: str, opening: re.Match[str]) -> tuple[object, int]:
    """Return the JSON value in the block, and where it ends."""
    value = re.compile(r"\S").search(text, opening.end())
    if value is None:
        raise _Unreadable("the block of JSON is empty")
    try:
        return _DECODER.raw_decode(text, value.start())
    except ValueError as error:
        reason = f": {error.msg}" if isinstance(error, json.JSONDecodeError) else ""
        raise _Unreadable(f"its JSON is not valid{reason}") from None


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; raise _Unreadable if it names a member twice."""
    if len({name for name, _ in pairs}) < len(pairs):
        raise _Unreadable("its JSON names a member twice")
    return dict(pairs)


_DECODER = json.JSONDecoder(object_pairs_hook=_object_without_duplicates)


def _read_verdict(value: object) -> ReviewVerdict:
    if not isinstance(value, dict):
        raise _Unreadable("its JSON is not an object")
    verdict = value.get("verdict")
    if verdict not in ("DONE", "NEEDS_FIX"):
        raise _Unreadable('its "verdict" is neither "DONE" nor "NEEDS_FIX"')
    missing = _missing_text(value.get("missing"))
    if missing.casefold().strip(" .()") in _NOTHING:
        if verdict == "DONE":
            raise _Unreadable('"missing" must be "" if nothing is missing')
        missing = ""
    is_done = verdict == "DONE" and not missing
    checklist = value.get("checklist")
    entries = checklist if isinstance(checklist, list) else []
    is_itemised = any(isinstance(entry, dict) for entry in entries)
    items = tuple(
        _items_of_entries(entries, is_done) if is_itemised else _items_of_text(checklist, is_done)
    )
    if is_done and not items:
        raise _Unreadable('DONE needs a "checklist" with one entry for each requirement')
    return ReviewVerdict(is_done=is_done, checklist=items, is_itemised=is_itemised, missing=missing)


def _missing_text(value: object) -> str:
    """Return the member as text, a list as bullets."""
    if value is None:
        return ""
    entries = value if isinstance(value, list) else [value]
    texts = (e if isinstance(e, str) else json.dumps(e, ensure_ascii=False) for e in entries)
    bullet = "- " if isinstance(value, list) else ""
    return "\n".join(f"{bullet}{text.strip()}" for text in texts if text.strip())


def _items_of_entries(entries: list[object], is_done: bool) -> Iterator[ChecklistItem]:
    for entry in entries:
        members = entry if isinstance(entry, dict) else {}
        if isinstance(entry, str):
            note = "no evidence is named"
            members = {"requirement": entry, "status": "not_verified", "note": note}
        requirement = members.get("requirement")
        if not isinstance(requirement, str) or not requirement.strip():
            if is_done:
                raise _Unreadable('an entry of its "checklist" has no "requirement"')
            continue
        status = members.get("status")
        if status not in get_args(Status):
            if is_done:
                words = " or ".join(f'"{each}"' for each in get_args(Status))
                raise _Unreadable(f'the "status" of an entry of its "checklist" is not {words}')
            status = "not_verified"
        remark = members.get("note")
        yield ChecklistItem(
            requirement=requirement.strip(),
            status=cast(Status, status),
            evidence=_texts(members.get("evidence")),
            note=remark.strip() if isinstance(remark, str) else "",
        )


def _texts(value: object) -> tuple[str, ...]:
    entries = value if isinstance(value, list) else [value]
    return tuple(each.strip() for each in entries if isinstance(each, str) and each.strip())


def _items_of_text(value: object, is_done: bool) -> Iterator[ChecklistItem]:
    """Yield the lines of a checklist in plain text; a tick or a cross sets their status."""
    for text in _texts(value):
        for line in text.splitlines():
            bare = _MARKER.sub("", line, count=1).strip()
            status: Status = "verified" if is_done else "not_verified"
            for mark, meaning in ((_CHECKED, "verified"), (_UNCHECKED, "not_verified")):
                if mark.match(bare):
                    bare, status = mark.sub("", bare), cast(Status, meaning)
            if bare:
                yield ChecklistItem(requirement=bare, status=status)


def _object_schema(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_TEXT = {"type": "string"}
_ITEM = _object_schema(
    requirement=_TEXT,
    status={"type": "string", "enum": list(get_args(Status))},
    evidence={"type": "array", "items": _TEXT},
    note=_TEXT,
)
SCHEMA = _object_schema(
    verdict={"type": "string", "enum": ["DONE", "NEEDS_FIX"]},
    checklist={"type": "array", "items": _ITEM},
    missing=_TEXT,
)
"""Every member is required, because the strictest services demand it."""


class _VerdictAnswer(AnswerSchema):
    """The answer of a reviewer who is asked for the verdict alone; it may follow other text."""

    __slots__ = ()

    def check_text(self, text: str) -> CheckedValue:
        verdict = parse_verdict(as_json_block(text))
        return CheckedValue(None, [verdict]) if isinstance(verdict, str) else CheckedValue(text)


def verdict_answer_schema() -> AnswerSchema:
    """Return the schema of a verdict, for services that support schemas of answers."""
    return _VerdictAnswer(json_schema=SCHEMA, is_wrapped=False, check=lambda value: ())


def as_json_block(text: str) -> str:
    """Return `text` as a block for `parse_verdict` if it is a bare JSON object."""
    return f"```json\n{text.strip()}\n```" if text.lstrip().startswith("{") else text


Finding: TypeAlias = tuple[str, str]
"""A requirement and the reason of its status."""
_Result: TypeAlias = tuple[Status, str]
"""The status of an item and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedVerdict:
    """A verdict after its check against the evidence."""

    is_approved: bool
    """Whether the plan is done."""
    verified: tuple[Finding, ...] = ()
    """Requirements that evidence shows to be met."""
    not_verified: tuple[Finding, ...] = ()
    """Requirements without such evidence."""
    cannot: tuple[Finding, ...] = ()
    """Requirements that can't be verified here."""
    problem: str = ""
    """Why the verdict doesn't count; empty if it does."""
    has_verdict: bool = True
    """Whether the verdict could be read."""
    missing: str = ""
    """What the reviewer asks for."""


def check_verdict(
    verdict: ReviewVerdict | str, ledger: EvidenceLedger, *, tree: str, step: int
) -> CheckedVerdict:
    """Check the verdict of this step's review against the evidence.

    `tree` is the hash of the current files, "" if they can't be read. DONE counts only if nothing
    is missing, and commands that passed in this review on these files show every requirement. One
    of them must have done more than read.
    """
    if isinstance(verdict, str):
        return CheckedVerdict(is_approved=False, problem=verdict, has_verdict=False)
    check = _EvidenceCheck(ledger, tree=tree, step=step)
    findings: dict[str, list[Finding]] = {status: [] for status in get_args(Status)}
    for item, (status, why) in zip(verdict.checklist, check.results(verdict), strict=True):
        findings[status].append((item.requirement, why))
    unmet = len(verdict.checklist) - len(findings["verified"])
    problem = _problem(verdict, unmet, is_proved=check.is_proved, is_known=bool(tree))
    return CheckedVerdict(
        is_approved=verdict.is_done and not problem,
        verified=tuple(findings["verified"]),
        not_verified=tuple(findings["not_verified"]),
        cannot=tuple(findings["cannot_verify"]),
        problem=problem,
        missing=verdict.missing,
    )


def _problem(verdict: ReviewVerdict, unmet: int, *, is_proved: bool, is_known: bool) -> str:
    if not verdict.is_done:
        is_explained = verdict.missing or unmet
        return "" if is_explained else "the verdict is NEEDS_FIX, but names nothing that is missing"
    problems = (
        (verdict.missing, "the verdict is DONE, but something is missing"),
        (not verdict.checklist, "the verdict is DONE, without a checklist"),
        (not is_known, "the files cannot be read, so no evidence is about the current files"),
        (not is_proved, "no command that does more than read has passed on the current files"),
        (unmet, f"{unmet} of {len(verdict.checklist)} requirements have no evidence that counts"),
    )
    return next((problem for is_there, problem in problems if is_there), "")


_ID = late_pattern(r"(?<!\w)E\d{1,9}(?!\w)")
_SPAN = late_pattern(r"`+([^`\n]+)`+")
_PROMPT = late_pattern(r"\A\$\s+")
_MIN_CITATION_CHARS = 3

# The text that may follow a command in a sentence. Anything else could be one more argument, of a
# command that never ran.
_REMARK = late_pattern(
    r"\s*(?:\Z|[.!?](?!\w)|[→—–:,;()]|[-=]>)"
    r"|\s+(?:pass|succe|exit|ok|show|return|ran|run|was|is|and|gives|prints)"
)


class _EvidenceCheck:
    """Checks items of a verdict against the commands that one review ran on the current files.

    Of equal commands, the last run counts. Commands of this review are preferred to all others.
    """

    def __init__(self, ledger: EvidenceLedger, *, tree: str, step: int) -> None:
        self._tree = tree
        self._step = step
        here = [item for item in ledger.of("review", step) if tree and item.tree == tree]
        self._current = {normalize_command(item.command): item for item in here}
        self._any = {normalize_command(item.command): item for item in ledger.items}
        self._by_id = {item.id: item for item in ledger.items}
        self._checks = [item for item in self._current.values() if not item.is_look]

    @property
    def is_proved(self) -> bool:
        """Whether any check has passed."""
        return any(self._is_passed(check) for check in self._checks)

    def results(self, verdict: ReviewVerdict) -> list[_Result]:
        """Return the result for each item of the checklist."""
        items = verdict.checklist
        if verdict.is_itemised:
            evidence = [[e for entry in i.evidence for e in self._cited_in(entry)] for i in items]
        else:
            evidence = [self._named_in(item.requirement) for item in items]
            if verdict.is_done and not any(self._is_passed(e) for each in evidence for e in each):
                checks = [c for c in self._checks if not hides_failures(c.command)] or self._checks
                evidence = [each or checks for each in evidence]
        return [self._result(item, each) for item, each in zip(items, evidence, strict=True)]

    def _result(self, item: ChecklistItem, evidence: Sequence[Evidence]) -> _Result:
        if item.status == "cannot_verify":
            return "cannot_verify", item.note or "the reviewer could not verify it"
        if item.status == "not_verified":
            return "not_verified", item.note or "the reviewer says that it is not met"
        if not evidence and item.evidence:
            return "not_verified", f"the review ran no such command: {', '.join(item.evidence)}"
        if not evidence:
            return "not_verified", "no command that was run is named for it"
        results = [self._evidence_result(each) for each in evidence]
        for status in ("not_verified", "cannot_verify"):
            if result := next((each for each in results if each[0] == status), None):
                return result
        return "verified", "; ".join(dict.fromkeys(why for _, why in results))

    def _is_passed(self, item: Evidence) -> bool:
        return self._evidence_result(item)[0] == "verified"

    def _evidence_result(self, item: Evidence) -> _Result:
        """Return the result that one piece of evidence has by itself."""
        ending = describe_ending(item)
        if item.phase != "review":
            return "not_verified", f"{ending}, but only the implementation ran it"
        if item.step != self._step:
            return "not_verified", f"{ending}, but in an earlier review"
        if not self._tree or item.tree != self._tree:
            return "not_verified", f"{ending}, but the files have changed since"
        if item.outcome in UNFINISHED:
            return "cannot_verify", ending
        if not item.has_passed:
            return "not_verified", ending
        if hides_failures(item.command):
            return "not_verified", f"{ending}, but that is not the exit code of every check in it"
        return "verified", ending

    def _cited_in(self, entry: str) -> list[Evidence]:
        """Return the evidence that an entry names as one command, or with one in each line."""
        lines = entry.splitlines()
        return self._cited(entry) or [
            item for line in lines if len(lines) > 1 for item in self._cited(line)
        ]

    def _cited(self, citation: str) -> list[Evidence]:
        """Return the evidence that a citation names, as a command or by an id.

        An equal command is preferred to those that contain the citation, and these to commands that
        a remark follows.
        """
        text = normalize_command(citation)
        if equal := self._current.get(text, self._any.get(text)):
            return [equal]
        if _ID.match(text):
            return self._by_ids(text)
        for known in (self._current, self._any) if len(text) >= _MIN_CITATION_CHARS else ():
            if longer := [item for each, item in known.items() if _contains_words(each, text)]:
                return longer
        if "`" in text:
            return self._in_spans(text)
        return self._remarked(text, starts=True)

    def _named_in(self, sentence: str) -> list[Evidence]:
        """Return the evidence that a sentence names by id, between backticks, or as plain words."""
        text = normalize_command(sentence)
        named = self._by_ids(text) + self._in_spans(sentence)
        return named or self._remarked(text, starts=False)

    def _by_ids(self, text: str) -> list[Evidence]:
        items = [self._by_id[each] for each in _ID.findall(text) if each in self._by_id]
        return [self._current.get(normalize_command(item.command), item) for item in items]

    def _in_spans(self, text: str) -> list[Evidence]:
        spans = [normalize_command(span) for span in _SPAN.findall(text)]
        named = [self._current.get(span, self._any.get(span)) for span in spans]
        return [item for item in named if item]

    def _remarked(self, text: str, *, starts: bool) -> list[Evidence]:
        for known in (self._current, self._any):
            named = [
                item
                for command, item in known.items()
                if (text.startswith(command) if starts else " " in command)
                and any(_REMARK.match(text, end) for end in _word_ends(text, command))
            ]
            if named:
                return named
        return []


def normalize_command(text: str) -> str:
    """Return a command for comparison: without prompt sign, backticks and repeated blanks."""
    bare = text.strip()
    if len(bare) > 1 and bare[0] == bare[-1] == "`" and "`" not in bare.strip("`"):
        bare = bare.strip("`")
    return " ".join(_PROMPT.sub("", bare.strip()).split())


def _contains_words(command: str, text: str) -> bool:
    """Whether `command` contains `text` as whole words: `test` is not in `pytest tests/`."""
    return any(not re.match(r"[\w./-]", command[end:]) for end in _word_ends(command, text))


def _word_ends(text: str, words: str) -> Iterator[int]:
    """Return the positions at which `words` end in `text`, unless they begin within a word."""
    starts = re.finditer(rf"(?<![\w./-])(?={re.escape(words)})", text) if words else ()
    return (match.start() + len(words) for match in starts)


_FILTERS = word_set(
    "tail head tee cat less more sort uniq wc sed awk cut tr nl column grep egrep rg"
)
_QUIET = word_set("-q --quiet --silent -qx -qF -qE -Fq -Eq -qi -iq")
_BEFOREHAND = word_set(
    "cd export set unset source . umask ulimit pwd echo printf ls cat date mkdir touch rm cp ln mv"
    " which command type true :"
)
_SHELLS = word_set("sh bash zsh dash")

# For lines that the strict lexer rejects (substitutions, here-documents, loops).
_COVERED = late_pattern(
    r"\|\|(?!\s*(?:exit\s+[1-9]|false\b))"
    rf"|(?<!\|)\|(?!\|)&?\s*(?:{'|'.join(sorted(_FILTERS))})\b(?![^|;&\n]*\s-q)"
    r"|[;\n]\s*(?:true|:|echo|printf|exit)\b[^;&|\n]*\s*\Z"
    r"|(?<![&>])&\s*\Z"
)
_SUBSTITUTION = late_pattern(r"\$\([^()]*\)")
_STRING = late_pattern(r"'[^']*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)
_SHELL_WITHIN = late_pattern(rf"\b(?:{'|'.join(sorted(_SHELLS))})\s+-\w*c\b")


def hides_failures(command: str) -> bool:
    """Whether a check in `command` may have failed although the whole exits with 0.

    As in `pytest | tail`, `make test || true` and `pytest; echo done`. If a line can't be parsed,
    a regular expression decides.
    """
    if len(command) > MAX_BYTES:
        return True
    try:
        parts = lex(command)
    except NotPlain:
        return bool(_COVERED.search(_without_inner_shells(command)))
    options = [option for part in parts if part.argv[0] == "set" for option in part.argv[1:]]
    keeps_pipes = "pipefail" in options
    stops_at_once = any(re.fullmatch(r"-\w*e\w*", option) for option in options)
    inner = (
        text
        for part in parts
        for program, option, text in zip(part.argv, part.argv[1:], part.argv[2:], strict=False)
        if program in _SHELLS and re.fullmatch(r"-\w*c", option)
    )
    return any(map(hides_failures, inner)) or any(
        _is_hidden(part, then, keeps_pipes=keeps_pipes, stops_at_once=stops_at_once)
        for part, then in pairwise(parts)
    )


def _is_hidden(part: Part, then: Part, *, keeps_pipes: bool, stops_at_once: bool) -> bool:
    """Whether the exit code of `then` takes the place of that of `part`."""
    if then.joint == "&&":
        return False
    if then.joint == "||":
        return then.argv[0] != "false" and not re.fullmatch(r"exit [1-9]\d*", " ".join(then.argv))
    if part.argv[0] in _BEFOREHAND:
        return False
    if then.joint == "|":
        is_passed_on = then.argv[0] in _FILTERS and _QUIET.isdisjoint(then.argv)
        return is_passed_on and not keeps_pipes
    return not stops_at_once


def _without_inner_shells(command: str) -> str:
    """Return the command line without the content of substitutions, here-documents and strings."""
    kept = "\n".join(without_here_documents(command.split("\n")))
    text = _SUBSTITUTION.sub("$", kept)
    return text if _SHELL_WITHIN.search(text) else _STRING.sub("''", text)
