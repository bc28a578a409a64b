"""A whole text cut into the pieces it is drawn in."""

from dirge_py.ui.transcript.flow import Flow, Piece

_LONG_TEXT = 20_000
"""Characters from which a text is cut, so that no one drawing takes long."""


def pieces_of(text: str) -> list[Piece]:
    """Of a stored answer, or a report; a usual one is one piece, not parsed before it is seen."""
    if len(text) < _LONG_TEXT:
        return [Piece(text)]
    flow = Flow()
    return [*flow.feed(text), *flow.close()]
