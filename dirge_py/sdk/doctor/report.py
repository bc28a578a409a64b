"""The results of checks, and their report as text and as JSON."""

import json
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Literal, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import clean, plural

State: TypeAlias = Literal["ok", "warning", "problem", "skipped"]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check."""

    name: str
    """What was checked."""
    words: str
    """The finding, in words."""
    fix: str = ""
    """The exact command or setting that fixes it; empty if there is no problem."""
    tmux_line: str = ""
    """The line of `~/.tmux.conf` that is the fix."""
    state: State = "ok"
    """Its result: a warning is something that works less well than it could."""


passed = CheckResult
warn = partial(CheckResult, state="warning")
failed = partial(CheckResult, state="problem")
skipped = partial(CheckResult, state="skipped")


def as_text(findings: Sequence[CheckResult]) -> str:
    """One line for each, and one for its fix."""
    wide = max((len(finding.name) for finding in findings), default=0)
    lines: list[str] = []
    for each in findings:
        lines.append(f"{each.state:<8} {each.name:<{wide}}  {clean(each.words)}")
        if each.fix:
            lines.append(f"{'':<8} {'':<{wide}}  fix: {clean(each.fix)}")
    return "\n".join([*lines, "", _summary(findings)])


def as_json(findings: Sequence[CheckResult]) -> str:
    """One line: `ok`, and the findings as they are."""
    value = {
        "ok": exit_code(findings) == 0,
        "findings": [
            {"name": each.name, "state": each.state, "words": each.words, "fix": each.fix}
            for each in findings
        ],
    }
    return json.dumps(value)


def exit_code(findings: Sequence[CheckResult]) -> int:
    """1 if anything is a problem; warnings are none."""
    return int(any(finding.state == "problem" for finding in findings))


def _summary(findings: Sequence[CheckResult]) -> str:
    counts = Counter(finding.state for finding in findings)
    if not counts["problem"] and not counts["warning"]:
        return "No problems found."
    return f"{_count(counts['problem'], 'problem')}, {_count(counts['warning'], 'warning')}."


def _count(number: int, what: str) -> str:
    return plural(number, what) if number else f"no {what}s"
