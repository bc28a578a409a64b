"""The reviewer's verdict and its schema: what is not plainly DONE is not done.

Checks a verdict against the evidence of this review, on these files.

`Citations` finds the recorded commands that a reviewer names. A command whose exit code 0 does not
say that every check in it passed is no evidence: see `hides_failures`.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dirge_py.agent_loop.answer_schema import AnswerSchema, CheckedValue
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.shell_lexer import MAX_BYTES, NotPlain, Part, lex, without_here_documents, word_set
from dirge_py.plan.evidence import Evidence, EvidenceLedger, describe_ending
from itertools import pairwise
from typing import Any, Literal, TypeAlias, cast, get_args


Status: TypeAlias = Literal["verified", "not_verified", "cannot_verify"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChecklistItem:
    """One requirement, what the reviewer says of it, and which commands or ids it names for it."""

    requirement: str
    status: Status
    evidence: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewVerdict:
    """`is_itemised`: the checklist told the evidence of each item; otherwise it was plain text."""

    is_done: bool
    checklist: tuple[ChecklistItem, ...] = ()
    is_itemised: bool = True
    missing: str = ""


class _Unreadable(Exception):
    """There is no verdict; the message says why, in words for the reviewer."""


_OPENING = re.compile(r"^ {0,3}(`{3,})json[ \t]*\r?$", re.MULTILINE)
_VALUE = re.compile(r"\S")
_MARKER = re.compile(r"\A\s*(?:[-*+•]|\d{1,3}[.)])?\s*")
_CHECKED = re.compile(r"\A(?:\[[xX]\]|[✓✔✅])\ufe0f?\s*")
_UNCHECKED = re.compile(r"\A(?:\[ ?\]|[✗✘❌])\ufe0f?\s*")
_NOTHING = frozenset(("none", "nothing", "n/a", "na", "-", "--", "[]", "empty", "no"))


def parse_verdict(text: str) -> ReviewVerdict | str:
    """The verdict at the end of `text`, or why it cannot be read, in words for the reviewer.

    It is one block of JSON, tagged `json`, with nothing behind it. Earlier blocks that hold a
    verdict must say the same.
    """
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
    verdict = _read_verdict(_last_value(text, last))
    if not verdict.is_done:
        return verdict
    for value in _earlier_values(text, earlier):
        if isinstance(value, dict) and "verdict" in value and value["verdict"] != "DONE":
            raise _Unreadable("there are two verdicts, and they differ; give one")
    return verdict


def _earlier_values(text: str, openings: list[re.Match[str]]) -> Iterator[object]:
    """What stands in earlier blocks; one that cannot be read but has a verdict counts as one."""
    for position, opening in enumerate(openings):
        try:
            yield _decode(text, opening)[0]
        except _Unreadable:
            end = openings[position + 1].start() if position + 1 < len(openings) else len(text)
            if '"verdict"' in text[opening.end() : end].partition("```")[0]:
                yield {"verdict": None}


def _last_value(text: str, opening: re.Match[str]) -> object:
    value, end = _decode(text, opening)
    rest = text[end:].strip()
    if not rest.startswith(opening[1]):
        raise _Unreadable("the block of JSON is not closed by a line ``` of its own")
    if rest.strip("`"):
        raise _Unreadable("something stands behind the block of JSON; it must be the very last")
    return value


def _decode(text: str, opening: re.Match[str]) -> tuple[object, int]:
    """The JSON value in the block, and where it ends, whatever its strings hold."""
    value = _VALUE.search(text, opening.end())
    if value is None:
        raise _Unreadable("the block of JSON is empty")
    try:
        return _DECODER.raw_decode(text, value.start())
    except json.JSONDecodeError as error:
        raise _Unreadable(f"its JSON is not valid: {error.msg}") from None
    except ValueError:
        raise _Unreadable("its JSON is not valid") from None


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object. One that names a member twice says two things at once."""
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
    claims_done = verdict == "DONE"
    missing = _missing_text(value.get("missing"))
    if missing.casefold().strip(" .()") in _NOTHING:
        if claims_done:
            raise _Unreadable('where nothing is missing, "missing" is ""')
        missing = ""
    is_done = claims_done and not missing
    told = value.get("checklist")
    entries = told if isinstance(told, list) else []
    is_itemised = any(isinstance(entry, dict) for entry in entries)
    items = tuple(
        _items_of_entries(entries, is_done) if is_itemised else _items_of_text(told, is_done)
    )
    if is_done and not items:
        raise _Unreadable('DONE needs a "checklist" with one entry for each requirement')
    return ReviewVerdict(is_done=is_done, checklist=items, is_itemised=is_itemised, missing=missing)


def _missing_text(value: object) -> str:
    """As text, a list as bullets. Whatever is not plainly nothing is something."""
    if value is None:
        return ""
    if isinstance(value, list):
        entries = [entry if isinstance(entry, str) else _as_json(entry) for entry in value]
        return "\n".join(f"- {entry.strip()}" for entry in entries if entry.strip())
    return value.strip() if isinstance(value, str) else _as_json(value)


def _as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _items_of_entries(entries: list[object], is_done: bool) -> Iterator[ChecklistItem]:
    for entry in entries:
        if isinstance(entry, str) and entry.strip():
            yield ChecklistItem(
                requirement=entry.strip(), status="not_verified", note="no evidence is told"
            )
            continue
        requirement = entry.get("requirement") if isinstance(entry, dict) else None
        if (
            not isinstance(entry, dict)
            or not isinstance(requirement, str)
            or not requirement.strip()
        ):
            if is_done:
                raise _Unreadable('an entry of its "checklist" has no "requirement"')
            continue
        status = entry.get("status")
        if status not in get_args(Status):
            if is_done:
                words = " or ".join(f'"{each}"' for each in get_args(Status))
                raise _Unreadable(f'the "status" of an entry of its "checklist" is not {words}')
            status = "not_verified"
        note = entry.get("note")
        yield ChecklistItem(
            requirement=requirement.strip(),
            status=cast(Status, status),
            evidence=_texts(entry.get("evidence")),
            note=note.strip() if isinstance(note, str) else "",
        )


def _texts(value: object) -> tuple[str, ...]:
    entries = value if isinstance(value, list) else [value]
    return tuple(each.strip() for each in entries if isinstance(each, str) and each.strip())


def _items_of_text(value: object, is_done: bool) -> Iterator[ChecklistItem]:
    """The lines of a checklist that is a text or a list of texts, with what a tick says of each."""
    for text in _texts(value):
        for line in text.splitlines():
            bare = _MARKER.sub("", line, count=1).strip()
            status: Status = "verified" if is_done else "not_verified"
            for mark, meaning in ((_CHECKED, "verified"), (_UNCHECKED, "not_verified")):
                if mark.match(bare):
                    bare, status = mark.sub("", bare), cast(Status, meaning)
            if bare:
                yield ChecklistItem(requirement=bare, status=status)


_ITEM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "requirement": {"type": "string"},
        "status": {"type": "string", "enum": list(get_args(Status))},
        "evidence": {"type": "array", "items": {"type": "string"}},
        "note": {"type": "string"},
    },
    "required": ["requirement", "status", "evidence", "note"],
    "additionalProperties": False,
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "verdict": {"type": "string", "enum": ["DONE", "NEEDS_FIX"]},
        "checklist": {"type": "array", "items": _ITEM},
        "missing": {"type": "string"},
    },
    "required": ["verdict", "checklist", "missing"],
    "additionalProperties": False,
}
"""Every member is required, as the strictest services want it."""


class _VerdictAnswer(AnswerSchema):
    """What the answer of a reviewer has to be who is asked for nothing but the verdict.

    One in a block of JSON, with words before it, is read as well: it is what other services send.
    """

    __slots__ = ()

    def check_text(self, text: str) -> CheckedValue:
        verdict = parse_verdict(as_json_block(text))
        return CheckedValue(None, [verdict]) if isinstance(verdict, str) else CheckedValue(text)


def verdict_answer_schema() -> AnswerSchema:
    """A verdict, for services that can hold an answer to its schema."""
    return _VerdictAnswer(json_schema=SCHEMA, is_wrapped=False, check=lambda value: ())


def as_json_block(text: str) -> str:
    """A verdict that came bare, after the schema, as `parse_verdict` wants it."""
    return f"```json\n{text.strip()}\n```" if text.lstrip().startswith("{") else text


Finding: TypeAlias = tuple[str, str]
"""(requirement, why)."""
_Belief: TypeAlias = tuple[Literal["verified", "not_verified", "cannot_verify"], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedVerdict:
    """`problem` says why a DONE, or the verdict at all, was not believed; "" where it was.

    `has_verdict` is False where none could be read. `missing` is what the reviewer asks for.
    """

    is_approved: bool
    verified: tuple[Finding, ...] = ()
    not_verified: tuple[Finding, ...] = ()
    cannot: tuple[Finding, ...] = ()
    problem: str = ""
    has_verdict: bool = True
    missing: str = ""


def check_verdict(
    verdict: ReviewVerdict | str, ledger: EvidenceLedger, *, tree: str, step: int
) -> CheckedVerdict:
    """What is believed of the verdict of this step's review.

    `tree` is the hash of the files as they are now, "" where they cannot be read. DONE is believed
    only if nothing is missing, every requirement rests on commands that this review ran on these
    files and that passed, and one of them did more than look.
    """
    if isinstance(verdict, str):
        return CheckedVerdict(is_approved=False, problem=verdict, has_verdict=False)
    review = _Review(ledger, tree=tree, step=step)
    beliefs = review.beliefs(verdict)
    found: dict[str, list[Finding]] = {"verified": [], "not_verified": [], "cannot_verify": []}
    for item, (status, why) in zip(verdict.checklist, beliefs, strict=True):
        found[status].append((item.requirement, why))
    unmet = len(found["not_verified"]) + len(found["cannot_verify"])
    problem = _problem(verdict, unmet, is_proved=review.is_proved, is_known=bool(tree))
    return CheckedVerdict(
        is_approved=verdict.is_done and not problem,
        verified=tuple(found["verified"]),
        not_verified=tuple(found["not_verified"]),
        cannot=tuple(found["cannot_verify"]),
        problem=problem,
        missing=verdict.missing,
    )


def _problem(verdict: ReviewVerdict, unmet: int, *, is_proved: bool, is_known: bool) -> str:
    if not verdict.is_done:
        is_told = verdict.missing or unmet
        return "" if is_told else "the verdict is NEEDS_FIX, without a word on what is missing"
    if verdict.missing:
        return "the verdict is DONE, and yet something is missing"
    if not verdict.checklist:
        return "the verdict is DONE, without a checklist"
    if not is_known:
        return "the files cannot be read, so no evidence is about them as they are"
    if not is_proved:
        return "no command that does more than look has passed on the files as they are"
    if unmet:
        return f"{unmet} of {len(verdict.checklist)} requirements have no evidence that counts"
    return ""


class _Review:
    """One review as the ledger has it."""

    def __init__(self, ledger: EvidenceLedger, *, tree: str, step: int) -> None:
        self._tree = tree
        self._step = step
        self._citations = Citations(ledger, tree=tree, step=step)
        self._checks = [e for e in self._citations.current.values() if not e.is_look]

    @property
    def is_proved(self) -> bool:
        """Whether a check has passed at all."""
        return any(self._belief(check)[0] == "verified" for check in self._checks)

    def beliefs(self, verdict: ReviewVerdict) -> list[_Belief]:
        """What is believed of each item of the checklist."""
        items = verdict.checklist
        if verdict.is_itemised:
            return [self._of_item(item, self._cited(item)) for item in items]
        named = [self._citations.named(item.requirement) for item in items]
        names_any = any(
            self._belief(each)[0] == "verified" for evidence in named for each in evidence
        )
        on_the_whole = () if names_any or not verdict.is_done else self._telling
        return [
            self._of_item(item, evidence or on_the_whole)
            for item, evidence in zip(items, named, strict=True)
        ]

    @property
    def _telling(self) -> list[Evidence]:
        """The checks whose exit codes say something; where there are none, all."""
        return [each for each in self._checks if not hides_failures(each.command)] or self._checks

    def _cited(self, item: ChecklistItem) -> list[Evidence]:
        return [each for entry in item.evidence for each in self._entry(entry)]

    def _entry(self, entry: str) -> list[Evidence]:
        """One entry: a command, which may have several lines, or one on each line."""
        lines = entry.splitlines()
        return self._citations.cited(entry) or [
            each for line in lines if len(lines) > 1 for each in self._citations.cited(line)
        ]

    def _of_item(self, item: ChecklistItem, evidence: Sequence[Evidence]) -> _Belief:
        if item.status == "cannot_verify":
            return "cannot_verify", item.note or "the reviewer could not verify it"
        if item.status == "not_verified":
            return "not_verified", item.note or "the review did not find it met"
        if not evidence:
            claimed = ", ".join(item.evidence)
            if claimed:
                return "not_verified", f"the review ran no such command: {claimed}"
            return "not_verified", "no command that was run is named for it"
        beliefs = [self._belief(each) for each in evidence]
        for status in ("not_verified", "cannot_verify"):
            for belief in beliefs:
                if belief[0] == status:
                    return belief
        return "verified", "; ".join(dict.fromkeys(why for _, why in beliefs))

    def _belief(self, item: Evidence) -> _Belief:
        """What one piece of evidence is worth by itself."""
        told = describe_ending(item)
        if item.phase != "review":
            return "not_verified", f"{told}, but only the implementation ran it"
        if item.step != self._step:
            return "not_verified", f"{told}, but in an earlier review"
        if not self._tree or item.tree != self._tree:
            return "not_verified", f"{told}, but the files are no longer those it was run on"
        if item.outcome in ("denied", "timeout", "stopped"):
            return "cannot_verify", told
        if not item.has_passed:
            return "not_verified", told
        if hides_failures(item.command):
            return "not_verified", f"{told}, but that is not the exit code of every check in it"
        return "verified", told


_ID = re.compile(r"(?<!\w)E\d{1,9}(?!\w)")
_SPAN = re.compile(r"`+([^`\n]+)`+")
_PROMPT = re.compile(r"\A\$\s+")
_WITHIN_WORD = re.compile(r"[\w./-]")
_MIN_CITATION_CHARS = 3

# Behind a command in a sentence. Anything else could be a further argument, of a command that
# was never run.
_REMARK = re.compile(
    r"\s*(?:\Z|[.!?](?!\w)|[→—–:,;()]|[-=]>)"
    r"|\s+(?:pass|succe|exit|ok|show|return|ran|run|was|is|and|gives|prints)"
)


class Citations:
    """Looks commands up in `ledger`, on the side of what this review ran on the files as they are.

    `current` has the last run of each of these commands: one that failed and passed later, passed.
    """

    def __init__(self, ledger: EvidenceLedger, *, tree: str, step: int) -> None:
        here = [item for item in ledger.of("review", step) if tree and item.tree == tree]
        self.current = {normalize_command(item.command): item for item in here}
        self._any = {normalize_command(item.command): item for item in ledger.items}
        self._by_id = {item.id: item for item in ledger.items}

    def cited(self, citation: str) -> list[Evidence]:
        """What is meant by an entry that is to be a command, or the id of one.

        The same command wins over those that hold what was written, and these over one that has a
        remark behind it.
        """
        text = normalize_command(citation)
        for known in (self.current, self._any):
            if text in known:
                return [known[text]]
        if _ID.match(text):
            return self._by_ids(text)
        for known in (self.current, self._any) if len(text) >= _MIN_CITATION_CHARS else ():
            longer = [item for command, item in known.items() if _contains_words(command, text)]
            if longer:
                return longer
        if "`" in text:
            return self._in_spans(text)
        return self._remarked(text, starts=True)

    def named(self, sentence: str) -> list[Evidence]:
        """What a sentence names: by id or between backticks, else as plain words, two at least."""
        text = normalize_command(sentence)
        found = self._by_ids(text) + self._in_spans(sentence)
        return found or self._remarked(text, starts=False)

    def _by_ids(self, text: str) -> list[Evidence]:
        items = [self._by_id[each] for each in _ID.findall(text) if each in self._by_id]
        return [self.current.get(normalize_command(item.command), item) for item in items]

    def _in_spans(self, text: str) -> list[Evidence]:
        spans = [normalize_command(span) for span in _SPAN.findall(text)]
        found = [self.current.get(span, self._any.get(span)) for span in spans]
        return [item for item in found if item]

    def _remarked(self, text: str, *, starts: bool) -> list[Evidence]:
        for known in (self.current, self._any):
            found = [
                item
                for command, item in known.items()
                if (text.startswith(command) if starts else " " in command)
                and any(_REMARK.match(text, end) for end in _word_ends(text, command))
            ]
            if found:
                return found
        return []


def normalize_command(text: str) -> str:
    """A command for comparison: without a prompt sign, backticks around it, and odd blanks."""
    bare = text.strip()
    if len(bare) > 1 and bare[0] == bare[-1] == "`" and "`" not in bare.strip("`"):
        bare = bare.strip("`")
    return " ".join(_PROMPT.sub("", bare.strip()).split())


def _contains_words(command: str, text: str) -> bool:
    """Whether `text` is in it as words of their own: `test` is not in `pytest tests/`."""
    return any(not _WITHIN_WORD.match(command, end) for end in _word_ends(command, text))


def _word_ends(text: str, words: str) -> Iterator[int]:
    """Where `words` end in `text`, wherever they do not begin within a word."""
    start = text.find(words) if words else -1
    while start >= 0:
        if start == 0 or not _WITHIN_WORD.match(text[start - 1]):
            yield start + len(words)
        start = text.find(words, start + 1)


_FILTERS = word_set(
    "tail head tee cat less more sort uniq wc sed awk cut tr nl column grep egrep rg"
)
_QUIET = word_set("-q --quiet --silent -qx -qF -qE -Fq -Eq -qi -iq")
_BEFOREHAND = word_set(
    "cd export set unset source . umask ulimit pwd echo printf ls cat date mkdir touch rm cp ln mv"
    " which command type true :"
)
_SHELLS = word_set("sh bash zsh dash")

# What the strict reader refuses (substitutions, here-documents, loops) is only searched.
_COVERED = re.compile(
    r"\|\|(?!\s*(?:exit\s+[1-9]|false\b))"
    rf"|(?<!\|)\|(?!\|)&?\s*(?:{'|'.join(sorted(_FILTERS))})\b(?![^|;&\n]*\s-q)"
    r"|[;\n]\s*(?:true|:|echo|printf|exit)\b[^;&|\n]*\s*\Z"
    r"|(?<![&>])&\s*\Z"
)
_SUBSTITUTION = re.compile(r"\$\([^()]*\)")
_STRING = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)
_SHELL_WITHIN = re.compile(rf"\b(?:{'|'.join(sorted(_SHELLS))})\s+-\w*c\b")


def hides_failures(command: str) -> bool:
    """Whether a check in `command` could have failed although all of it exits with 0.

    As in `pytest | tail`, `make test || true` and `pytest; echo done`. Guessed high: a line that
    cannot be read counts by what it looks like.
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
    return any(map(hides_failures, _inner_commands(parts))) or any(
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


def _inner_commands(parts: tuple[Part, ...]) -> Iterator[str]:
    """The command lines that are given to shells, as in `bash -c 'make | tail'`."""
    for part in parts:
        for program, option, text in zip(part.argv, part.argv[1:], part.argv[2:], strict=False):
            if program in _SHELLS and re.fullmatch(r"-\w*c", option):
                yield text


def _without_inner_shells(command: str) -> str:
    """The command line without what substitutions, here-documents and strings hold."""
    kept = "\n".join(without_here_documents(command.split("\n")))
    text = _SUBSTITUTION.sub("$", kept)
    return text if _SHELL_WITHIN.search(text) else _STRING.sub("''", text)
