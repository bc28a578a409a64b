"""What the terminal is, by its environment and by its own answers."""

from collections.abc import Iterator, Mapping

from dirge_py.sdk.doctor.asking import MODES, SAMPLES, TerminalAnswers
from dirge_py.sdk.doctor.findings import Finding, skipped, warn, well, wrong

_SMALLEST, _COMFORTABLE = (20, 5), (40, 12)


def is_simple(environment: Mapping[str, str]) -> bool:
    """Whether the terminal writes down questions that it does not understand."""
    term = environment.get("TERM", "")
    return term in ("linux", "dumb", "") or environment.get("TERM_PROGRAM") == "Apple_Terminal"


def look_at_terminal(
    environment: Mapping[str, str], size: tuple[int, int] | None
) -> Iterator[Finding]:
    """By the environment alone. `size`: columns and rows, None without a terminal."""
    yield _kind(environment) if size or environment.get("TERM") else skipped("terminal", "none")
    yield _size(size)
    yield _locale(environment)
    yield _colours(environment)
    yield from _around(environment)


def look_at_answers(
    answers: TerminalAnswers | None, environment: Mapping[str, str]
) -> Iterator[Finding]:
    """By what the terminal said; None: it could not be asked."""
    if answers is None:
        yield skipped("answers", "there is no terminal here to ask about keys, modes and widths")
        return
    if answers.attributes is None:
        yield warn("answers", "the terminal said nothing within 200 ms; keys and widths unknown")
        return
    yield _kitty(answers, environment)
    if not is_simple(environment):
        for mode, name in MODES.items():
            has_it = answers.modes.get(mode, 0) in (1, 2, 3)
            yield well(name, "known") if has_it else _without(mode, name)
        yield _clipboard(answers, environment)
    yield _widths(answers)


def _kind(environment: Mapping[str, str]) -> Finding:
    term = environment.get("TERM", "")
    program = environment.get("TERM_PROGRAM", "")
    if term in ("", "dumb"):
        return wrong("terminal", f"TERM is {term or 'not set'}", "export TERM=xterm-256color")
    return well("terminal", f"{term}{f', {program}' if program else ''}")


def _size(size: tuple[int, int] | None) -> Finding:
    if size is None:
        return skipped("size", "no terminal")
    words = f"{size[0]}×{size[1]}"
    if size[0] < _SMALLEST[0] or size[1] < _SMALLEST[1]:
        return wrong("size", words, "make it at least 20×5")
    if size[0] < _COMFORTABLE[0] or size[1] < _COMFORTABLE[1]:
        return warn("size", f"{words}: questions have to be scrolled", "make it at least 40×12")
    return well("size", words)


def _locale(environment: Mapping[str, str]) -> Finding:
    names = ("LC_ALL", "LC_CTYPE", "LANG")
    name = next((name for name in names if environment.get(name)), "")
    value = environment.get(name, "")
    if value.lower().replace("-", "").endswith("utf8"):
        return well("locale", f"{name}={value}")
    words = f"{name}={value} is not UTF-8" if name else "LC_ALL, LC_CTYPE and LANG are not set"
    return warn("locale", words, "export LANG=C.UTF-8")


def _colours(environment: Mapping[str, str]) -> Finding:
    term = environment.get("TERM", "")
    if environment.get("NO_COLOR"):
        return well("colours", "none, as NO_COLOR asks")
    if environment.get("COLORTERM") in ("truecolor", "24bit") or term.endswith("-direct"):
        return well("colours", "16 million")
    if "256" in term or "kitty" in term or "ghostty" in term:
        return warn(
            "colours",
            "256: themes are drawn with the nearest",
            "export COLORTERM=truecolor, if the terminal has 24-bit colours (most have)",
        )
    return warn("colours", "16: themes look different", "export TERM=xterm-256color")


def _around(environment: Mapping[str, str]) -> Iterator[Finding]:
    """What stands between us and the person."""
    if environment.get("SSH_CONNECTION") or environment.get("SSH_TTY"):
        yield well("ssh", "copying goes through the terminal (OSC 52), unverified")
    if environment.get("STY") and not environment.get("TMUX"):
        yield warn(
            "screen",
            "GNU screen: no extended keys, no synchronized output",
            "use tmux 3.3 or newer; or send new lines with Ctrl+J",
        )
    if environment.get("VTE_VERSION") and not environment.get("TMUX"):
        yield warn(
            "vte",
            "terminals of this kind take no clipboard from programs (OSC 52)",
            "install wl-clipboard or xclip; over ssh: `/copy --file`, or Alt+M and select",
        )
    if environment.get("WSL_DISTRO_NAME"):
        yield well("wsl", "copying goes through clip.exe")


def _kitty(answers: TerminalAnswers, environment: Mapping[str, str]) -> Finding:
    if answers.has_kitty_keys:
        return well("keys", "the kitty keyboard protocol: every key arrives")
    lost = "no kitty keyboard protocol: Shift+Enter is Enter, Ctrl+Enter is lost"
    if environment.get("TMUX"):
        return well("keys", f"{lost}; tmux's extended-keys may send them all the same")
    return warn("keys", lost, "new lines with Ctrl+J or Alt+Enter; or use kitty, Ghostty, foot")


def _without(mode: int, name: str) -> Finding:
    words = {
        2026: "not known: the picture may tear while it scrolls",
        1004: "not known: without them dirge never rings, as if you looked",
        2004: "not known: without it pasted new lines send; attach files with @ then",
    }
    return warn(name, words[mode], "use another terminal, or tmux 3.4 or newer")


def _clipboard(answers: TerminalAnswers, environment: Mapping[str, str]) -> Finding:
    if answers.sets_clipboard:
        return well("clipboard", "the terminal says that it takes it (OSC 52)")
    return well("clipboard", "the terminal does not say whether it takes it (OSC 52); try /copy")


def _widths(answers: TerminalAnswers) -> Finding:
    if not answers.widths:
        return skipped("widths", "the terminal does not tell where its cursor is")
    odd = [
        f"{sample} takes {answers.widths[sample]} columns, not {wide}"
        for sample, wide in SAMPLES.items()
        if answers.widths[sample] != wide
    ]
    if not odd:
        return well("widths", "wide characters and emoji take the room they ought to")
    fix = "set ambiguous characters to narrow and Unicode to its newest version in the terminal"
    return warn("widths", "; ".join(odd), fix)
