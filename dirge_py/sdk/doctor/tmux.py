"""tmux's own settings: what it keeps from dirge, and the lines that change it."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from dirge_py.files.atomic import atomic_write
from dirge_py.processes.programs import run_program
from dirge_py.sdk.doctor.findings import Finding, skipped, warn, well
from dirge_py.types.errors import ProcessError

_LIMIT_S = 1.0
_SLOW_MS = 50

Show = Callable[[str], str]
"""The value of one of tmux's options; empty for one it does not have."""


def look_at_tmux(environment: Mapping[str, str], show: Show | None = None) -> Iterator[Finding]:
    """Nothing outside of tmux."""
    if not environment.get("TMUX"):
        return
    show = show or _show
    try:
        yield well("tmux", run_program(("tmux", "-V"), limit_s=_LIMIT_S).out.decode().strip())
        yield from _options(show)
    except ProcessError as error:
        yield skipped("tmux", error.message)


def _options(show: Show) -> Iterator[Finding]:
    yield _choice(
        show,
        "extended-keys",
        ("on", "always"),
        "Shift+Enter and others arrive as Enter",
        "set -s extended-keys on",
    )
    yield _choice(
        show,
        "set-clipboard",
        ("on", "external"),
        "what is copied stays in tmux",
        "set -s set-clipboard on",
    )
    yield _choice(
        show,
        "allow-passthrough",
        ("on", "all"),
        "desktop notifications do not get through",
        "set -g allow-passthrough on",
    )
    yield _choice(
        show,
        "focus-events",
        ("on",),
        "dirge cannot know whether you look, so it never rings",
        "set -g focus-events on",
    )
    delay = show("escape-time")
    if delay.isdecimal() and int(delay) > _SLOW_MS:
        yield _fixed("escape-time", f"{delay} ms: every Esc waits", "set -sg escape-time 10")
    else:
        yield well("escape-time", f"{delay or 'unknown'} ms")
    term = show("default-terminal")
    if re.match(r"(tmux|screen)-(256color|direct)", term):
        yield well("default-terminal", term)
    else:
        line = 'set -g default-terminal "tmux-256color"'
        yield _fixed("default-terminal", f"{term or 'unknown'}: few colours", line)
    features = show("terminal-features") + show("terminal-overrides")
    if re.search(r"\bRGB\b|\bTc\b", features):
        yield well("24-bit colours", "passed on")
    else:
        line = 'set -as terminal-features ",*:RGB"'
        yield _fixed("24-bit colours", "tmux draws with 256", line)


def missing_lines(findings: Iterator[Finding] | list[Finding]) -> list[str]:
    """The lines of `~/.tmux.conf` that would mend what was found."""
    return [finding.tmux_line for finding in findings if finding.tmux_line]


def append_lines(lines: list[str], home: Path) -> Path | None:
    """Add lines at the end of `~/.tmux.conf`; returns the copy of what was there, if anything was.

    Raises:
        FileError: it could not be written; nothing is changed then.
    """
    settings = home / ".tmux.conf"
    try:
        before = settings.read_bytes()
    except FileNotFoundError:
        before = b""
    copy = None
    if before:
        copy = _free_name(home / ".tmux.conf.before-dirge")
        atomic_write(copy, before, mode=0o600)
    gap = b"" if not before or before.endswith(b"\n") else b"\n"
    added = "\n".join(["# for dirge", *lines]) + "\n"
    atomic_write(settings, before + gap + added.encode())
    return copy


def _free_name(path: Path) -> Path:
    number = 1
    while os.path.lexists(free := path.with_name(f"{path.name}{number if number > 1 else ''}")):
        number += 1
    return free


def _choice(show: Show, option: str, good: tuple[str, ...], lost: str, line: str) -> Finding:
    value = show(option)
    if value in good:
        return well(option, value)
    if not value:
        return warn(option, f"unknown to this tmux: {lost}", "use tmux 3.3 or newer")
    return _fixed(option, f"{value}: {lost}", line)


def _fixed(name: str, words: str, line: str) -> Finding:
    return warn(name, words, f"put `{line}` into ~/.tmux.conf", tmux_line=line)


def _show(option: str) -> str:
    ended = run_program(("tmux", "show", "-gv", option), limit_s=_LIMIT_S)
    return ended.out.decode(errors="replace").strip() if ended.code == 0 else ""
