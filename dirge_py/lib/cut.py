"""Making texts shorter: how much each may keep, and what is left of it."""

from collections.abc import Sequence


def fair_shares(sizes: Sequence[int], total: int) -> list[int]:
    """How much of each size fits into `total`: the small ones whole, the others evenly.

    What the small ones do not need goes to the others. Shares add up to `total` at most; what
    cannot be divided goes to the last ones.
    """
    shares = [0] * len(sizes)
    left = max(0, total)
    by_size = sorted(range(len(sizes)), key=lambda position: (sizes[position], position))
    for number, position in enumerate(by_size):
        shares[position] = min(sizes[position], left // (len(sizes) - number))
        left -= shares[position]
    return shares


def cut_middle(text: str, most: int, marker: str, *, tail: float = 0.1) -> str:
    """The beginning and the end of `text`, with `marker` between, in `most` characters.

    `tail` is the end's share of what is kept. A text that fits is returned as it is.
    """
    if len(text) <= most:
        return text
    room = most - len(marker)
    if room <= 0:
        return text[: max(0, most)]
    end = int(room * tail)
    return text[: room - end] + marker + text[len(text) - end :]
