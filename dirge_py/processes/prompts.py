"""Questions that commands put to a person who is not there, recognised in what they write."""

import re

from dirge_py.lib.text import clean

_LONGEST = 400
_LEAST_REPEATS = 10

_QUESTION = re.compile(
    r"""
    (?: \b(?:password|passphrase|passcode|passwd|username|login|verification\ code)\b .{0,200} :
    | \by(?:es)?\s*[/|]\s*n(?:o)?\b [^\n]{0,40}
    | \b(?:press|hit)\b .{0,30} \b(?:key|enter|return)\b [^\n]{0,40}
    | \b(?:continue|proceed|are\ you\ sure|overwrite|replace|retry|do\ you\ want|would\ you\ like)\b
      .{0,160} \? \W{0,12} (?:\(\w+\)\W{0,4})?
    ) \Z
    """,
    re.VERBOSE | re.IGNORECASE,
)


def question_at_end(text: str) -> str:
    """The last line of `text` if it is unfinished and looks like a question, else ""."""
    return _as_question(clean(text).rpartition("\n")[2])


def repeated_question(text: str) -> str:
    """The question that fills the end of `text`, ten times or more, else "".

    Whatever stands between, such as `Answer yes or no.`, is the same each time.
    """
    text = clean(text)
    period = _period(text)
    if not period or len(text) < _LEAST_REPEATS * period:
        return ""
    lines = text[-2 * period :].split("\n")[1:] or _rotations(text[-period:])
    return max(filter(None, map(_as_question, lines)), key=_likeness, default="")


def _rotations(line: str) -> list[str]:
    """What `line` may have begun as, if it is one turn of a loop that writes no line ends."""
    return [line[start:] + line[:start] for start in range(min(len(line), _LONGEST))]


def _likeness(question: str) -> tuple[bool, bool, int, str]:
    """The larger, the more it looks like the whole of a question and nothing but that."""
    return question[-1] in "?:)]", question[0].isalnum(), len(question), question


def _as_question(line: str) -> str:
    line = line.strip()
    if len(line) > _LONGEST or not line:
        return ""
    return line if _QUESTION.search(line) else ""


def _period(text: str) -> int:
    """After how many characters `text` repeats itself up to its end; 0 if it does not.

    The end counts most: what was written before a loop began is passed over.
    """
    backwards = text[::-1]
    borders = [0] * len(backwards)
    best, length = 0, 0
    for end in range(1, len(backwards)):
        while length and backwards[end] != backwards[length]:
            length = borders[length - 1]
        length += backwards[end] == backwards[length]
        borders[end] = length
        period = end + 1 - length
        if end + 1 >= _LEAST_REPEATS * period:
            best = period
    return best
