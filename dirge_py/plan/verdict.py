"""The reviewer's verdict, read with caution: whatever is not plainly DONE is not done."""

import json
from typing import Literal

from dirge_py.lib.lean_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One requirement, what the reviewer says of it, and which commands or ids it names for it."""

    requirement: str
    status: Literal["verified", "not_verified", "cannot_verify"]
    evidence: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`is_itemised`: the checklist told the evidence of each item; otherwise it was plain text."""

    is_done: bool
    checklist: tuple[Item, ...] = ()
    is_itemised: bool = True
    missing: str = ""


def parse_verdict(text: str) -> Verdict | str:
    """The verdict at the end of `text`, or why there is none, in words for the reviewer."""
    body = text.rpartition("```json\n")[2].strip()
    try:
        value = json.loads(body.removesuffix("```"))
    except ValueError:
        return "the last thing in it is not a block of JSON"
    if not isinstance(value, dict):
        return "it is not an object"
    return Verdict(is_done=value.get("verdict") == "DONE", missing=str(value.get("missing", "")))
