"""Fuzzy matching of typed letters, for completion and lists."""

SPREAD = 1000
"""Scores from here on belong to texts that have the letters in order, but not together."""


def fuzzy_score(wanted: str, text: str) -> int | None:
    """Return a score, lower is better; None if the letters aren't all there in order.

    Both are in lower case.
    """
    at = text.find(wanted)
    if at >= 0:
        return min(at, SPREAD - 1)
    gaps = letter_gaps(wanted, text)
    return None if gaps is None else SPREAD + gaps


def letter_gaps(wanted: str, text: str) -> int | None:
    """Return how many letters of `text` lie between those of `wanted`, which it has in order."""
    at, gaps = -1, 0
    for letter in wanted:
        place = text.find(letter, at + 1)
        if place < 0:
            return None
        gaps += place - at - 1
        at = place
    return gaps
