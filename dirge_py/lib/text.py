"""Text for people: untrusted text made safe to show, long text cut, numbers formatted.

`clean` is for output, `visible` for text that the user has to judge, `clean_json` for JSON. Texts
of tools, files and models may contain terminal commands (move the cursor, set the title, write the
clipboard) and characters that reorder or hide their neighbours. None of them may reach the
terminal. All three take time linear in the text.
"""

import json
import re
import unicodedata
from collections.abc import Sequence

from dirge_py.lib.lazy import late_pattern

_STRING_LIMIT = 4096
"""After this many characters, an unterminated control string counts as ended."""

_BLANKS_SHOWN = 8
"""Longer runs of blanks are shown as a count: padding could push a command off the screen."""

# A control string's body ends at anything that could begin another one. So every character is read
# by one attempt only, and a flood of unterminated strings costs no more than plain text.
_BODY = r"[^\x07\x18\x1a\x1b\x80-\x9f]"

_LINE_BODY = r"[^\n\x07\x18\x1a\x1b\x80-\x9f]"

_ESCAPE = late_pattern(
    rf"""
    (?:\x1b\[|\x9b) [0-?]{{0,{_STRING_LIMIT}}}+ [\ -/]{{0,16}}+ [@-~]?
  | (?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])                  # OSC DCS SOS PM APC
    (?: {_BODY}{{0,{_STRING_LIMIT}}}+ (?:\x07|\x1b\\|\x9c)    # whole,
      | {_LINE_BODY}{{0,{_STRING_LIMIT}}}+ )                  # or unterminated: the line at most
  | \x1b[\ -/]{{0,16}}+[0-~]?                                # the two-byte kinds, and ESC alone
  | (?P<newline>\r\n?)
  | [\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]
  | (?P<surrogate>[\ud800-\udfff])
    """,
    re.VERBOSE,
)

_REPLACEMENTS = {"newline": "\n", "surrogate": "\ufffd"}

_INVISIBLE_RANGES = (
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"  # soft hyphen, joiners, fillers
    "\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"  # zero width, line separators, bidi
    "\u3164\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # tags, variation selectors
)

_JOINERS = "\u200c\u200d"
_INVISIBLE = late_pattern(f"[{_INVISIBLE_RANGES}{_JOINERS}]")
_SUSPECT = late_pattern(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff{_INVISIBLE_RANGES}{_JOINERS}]")

_HIDDEN_IN_PROMPTS = late_pattern(
    rf"[\x00-\x08\x0b-\x1f\x7f-\xa0\ud800-\udfff{_INVISIBLE_RANGES}{_JOINERS}"
    "\u1680\u2000-\u200a\u202f\u205f\u2800\u3000\ufe00-\ufe0f]"
)

_UNSAFE_IN_JSON = late_pattern(rf"[\x7f-\x9f{_INVISIBLE_RANGES}{_JOINERS}]")
_BLANK_RUN = late_pattern(rf"[ \t]{{{_BLANKS_SHOWN + 1},}}")
_EMPTY_LINES = late_pattern(r"\n(?:[ \t]*\n){3,}")

_DEEPEST_INDENT = 40
"""The blanks at the start of a code line that are shown unchanged; more are shown as a count."""


def clean(text: str) -> str:
    """Return `text` without anything a terminal obeys; of the controls, newline and tab are kept.

    Escape sequences and control characters are dropped, a carriage return becomes a newline,
    characters that hide or reorder show as `<U+202E>`, lone surrogates as `\\ufffd`.
    """
    if not _SUSPECT.search(text):
        return text
    plain = _ESCAPE.sub(lambda match: _REPLACEMENTS.get(match.lastgroup or "", ""), text)
    return _INVISIBLE.sub(_name_unless_joining, plain)


def visible(text: str) -> str:
    """Return `text` with everything in it visible, for a user who decides what it may do.

    Nothing is dropped: controls, invisible characters and unusual blanks show as `<U+00A0>`; long
    runs of blanks and of empty lines show as their count.
    """
    named = _HIDDEN_IN_PROMPTS.sub(_name, text)
    counted = _BLANK_RUN.sub(lambda run: f" <{len(run[0])} spaces> ", named)
    return _EMPTY_LINES.sub(lambda run: f"\n<{run[0].count(chr(10)) - 1} empty lines>\n", counted)


def clean_json(text: str) -> str:
    """Return JSON `text` with the same meaning, and nothing in it that a terminal obeys.

    JSON itself escapes the controls below U+0020. Those up to U+009F, and the characters that
    `clean` names, are written as `\\u009b`.
    """
    return _UNSAFE_IN_JSON.sub(lambda match: json.dumps(match[0])[1:-1], text)


def _name(match: re.Match[str]) -> str:
    return f"<U+{ord(match[0]):04X}>"


def _name_unless_joining(match: re.Match[str]) -> str:
    """Keep joiners where emoji and scripts need them: between two visible non-ASCII characters."""
    at, text = match.start(), match.string
    is_between = match[0] in _JOINERS and 0 < at < len(text) - 1
    if is_between and _can_be_joined(text[at - 1]) and _can_be_joined(text[at + 1]):
        return match[0]
    return _name(match)


def _can_be_joined(char: str) -> bool:
    return char > "\x7f" and unicodedata.category(char)[0] in "LMS" and not _INVISIBLE.match(char)


def fair_shares(sizes: Sequence[int], total: int) -> list[int]:
    """Return how much of each size fits into `total`: small ones whole, the others evenly.

    Space that small ones do not need goes to the others. Shares add up to `total` at most; a
    remainder goes to the last ones.
    """
    shares = [0] * len(sizes)
    left = max(0, total)
    by_size = sorted(range(len(sizes)), key=lambda position: (sizes[position], position))
    for number, position in enumerate(by_size):
        shares[position] = min(sizes[position], left // (len(sizes) - number))
        left -= shares[position]
    return shares


def cut_middle(text: str, most: int, marker: str, *, tail: float = 0.1) -> str:
    """Return the beginning and the end of `text`, with `marker` between, in `most` characters.

    `tail` is the end's share of the kept text. A text that fits is returned unchanged.
    """
    if len(text) <= most:
        return text
    room = most - len(marker)
    if room <= 0:
        return text[: max(0, most)]
    end = int(room * tail)
    return text[: room - end] + marker + text[len(text) - end :]


def truncate(text: str, most: int) -> str:
    """Return `text` in at most `most` characters; `…` stands for the removed end."""
    return text if len(text) <= most else text[: most - 1] + "…"


def one_line(text: str, most: int) -> str:
    """Return `text` on one line of at most `most` characters, with single blanks."""
    return truncate(" ".join(text.split()), most)


def visible_name(name: str) -> str:
    """Return a path, rule or name on one line: one with a newline could pass for two of them."""
    return visible(name).replace("\n", "<U+000A>").replace("\t", "<U+0009>")


def visible_code(line: str) -> str:
    """Return a line of code with its indentation unchanged."""
    indent = len(line) - len(line.lstrip(" \t"))
    if indent > _DEEPEST_INDENT or indent == len(line):
        return visible(line)
    return line[:indent] + visible(line[indent:])


def plural(count: int, noun: str) -> str:
    """Return a text such as `1 file`, `3 files` or `2 matches`."""
    ending = "" if count == 1 else "es" if noun.endswith(("s", "ch")) else "s"
    return f"{count} {noun}{ending}"


def format_count(count: int) -> str:
    """Return a text such as `950`, `12k` or `1.2M`."""
    if count < 1000:
        return str(count)
    return f"{count // 1000}k" if count < 1_000_000 else f"{count / 1_000_000:.1f}M"


def format_usd(price: float | None, least: float = 0.0) -> str:
    """Return a text such as `$0.0123`; `$0.0063+` or `unknown` for an unknown price."""
    if price is not None:
        return f"${price:.4f}"
    return f"${least:.4f}+" if least else "unknown"


def format_cost(price: float | None, least: float = 0.0) -> str:
    """Return the same for places without a heading that names the cost."""
    cost = format_usd(price, least)
    return "cost unknown" if cost == "unknown" else cost
