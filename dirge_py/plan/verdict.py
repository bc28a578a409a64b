"""The reviewer's verdict and its schema: what is not plainly DONE is not done."""

import json
import re
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias, cast, get_args

from dirge_py.agent_loop.answer_schema import AnswerSchema, CheckedValue
from dirge_py.lib.lean_dataclass import dataclass

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
