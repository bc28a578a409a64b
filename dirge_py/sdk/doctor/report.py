"""The results of checks, and their report as text and as JSON."""

import json
from collections.abc import Sequence
from typing import Literal, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import clean

State: TypeAlias = Literal["ok", "warning", "problem", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The result of one check."""

    name: str
    """What was checked."""
    state: State
    """Its result."""
    words: str
    """The finding, in words."""
    fix: str = ""
    """The exact command or setting that fixes it; empty if there is no problem."""
    tmux_line: str = ""
    """The line of `~/.tmux.conf` that is the fix."""


def passed(name: str, words: str) -> CheckResult:
    return CheckResult(name=name, state="ok", words=words)


def warn(name: str, words: str, fix: str = "", *, tmux_line: str = "") -> CheckResult:
    """Something works less well than it could."""
    return CheckResult(name=name, state="warning", words=words, fix=fix, tmux_line=tmux_line)


def failed(name: str, words: str, fix: str = "") -> CheckResult:
    """Something does not work."""
    return CheckResult(name=name, state="problem", words=words, fix=fix)


def skipped(name: str, words: str) -> CheckResult:
    return CheckResult(name=name, state="skipped", words=words)


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
    problems = sum(finding.state == "problem" for finding in findings)
    warnings = sum(finding.state == "warning" for finding in findings)
    if not problems and not warnings:
        return "All is well."
    return f"{_count(problems, 'problem')}, {_count(warnings, 'warning')}."


def _count(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"
