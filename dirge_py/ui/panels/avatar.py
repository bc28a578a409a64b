"""A face of five cells that shows what goes on."""

from collections.abc import Mapping
from typing import Literal

Mood = Literal[
    "idle",
    "waiting",
    "thinking",
    "speaking",
    "reading",
    "writing",
    "bash",
    "alert",
    "error",
    "done",
]

# Plain ASCII: other signs are wide in some terminals, and narrow in others.
FACES: Mapping[Mood, tuple[str, ...]] = {
    "idle": ("(o o)",),
    "waiting": ("(- -)", "(_ _)"),
    "thinking": ("(o -)", "(- o)"),
    "speaking": ("(o_o)", "(oOo)"),
    "reading": ("(> >)", "(< <)"),
    "writing": ("(o,o)", "(o.o)"),
    "bash": ("($_$)", "($_ )"),
    "alert": ("(O!O)",),
    "error": ("(x x)",),
    "done": ("(^ ^)",),
}


def face(mood: Mood, beat: int = 0) -> str:
    """The face for a mood; some have two looks that take turns with every beat."""
    looks = FACES[mood]
    return looks[beat % len(looks)]
