"""Functions that start themselves twice in the background: `:(){ :|:& };:`."""

import re
from collections import Counter

# Every part begins where it must and gives nothing back, so that no text is read more than once.
_NOT_RUN = re.compile(
    r"\\.|'[^']*+'|\"(?:[^\"\\]|\\.)*+\"|(?<!\\\s)(?<![^\s;|&(){}])#[^\n]*+", re.DOTALL
)
_NAME = r"(?<![\w:.!-])([\w:.!-]++)\s*+"
_TOKEN = re.compile(
    rf"{_NAME}(?:\(\s*+\)\s*+([{{(])|(\{{))|{_NAME}\|\s*+(?P<twice>\4)(?=[\s)]*+&)|[{{}}()]"
)
_CLOSED_BY = {"{": "}", "(": ")"}


def is_fork_bomb(text: str) -> bool:
    """Whether a function in `text` pipes itself into itself, in the background."""
    open_brackets: list[tuple[str, str]] = []
    """What closes each, and the function whose body it opens."""
    bodies: Counter[str] = Counter()
    for found in _TOKEN.finditer(_NOT_RUN.sub(" ", text)):
        if found["twice"]:
            if bodies[found["twice"]]:
                return True
            continue
        bracket = found[2] or found[3] or found[0]
        if bracket in _CLOSED_BY:
            name = found[1] or ""
            open_brackets.append((_CLOSED_BY[bracket], name))
            bodies[name] += 1
        elif open_brackets and open_brackets[-1][0] == bracket:
            bodies[open_brackets.pop()[1]] -= 1
    return False
