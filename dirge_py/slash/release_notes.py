"""`/release-notes`: what is new in the version that runs."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from dirge_py.lib import version
from dirge_py.slash.base import FrontEnd
from dirge_py.types.errors import UsageError
from dirge_py.types.extensions import Command

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation

_PACKAGE = Path(version.__file__).parents[1]
_PLACES = (_PACKAGE / "CHANGELOG.md", _PACKAGE.parent / "CHANGELOG.md")
"""In an installed package, and in a checkout."""


async def release_notes(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    text = next((p.read_text(encoding="utf-8") for p in _PLACES if p.is_file()), "")
    if not text:
        raise UsageError("This installation holds no CHANGELOG.", hint="The project's page has it.")
    front.show(newest(text))


def newest(changelog: str) -> str:
    """The part about the newest version, or what was not released yet, from its heading on."""
    parts = changelog.split("\n## ")[1:]
    told = [part for part in parts if len(part.strip().splitlines()) > 1]
    if not told:
        return changelog.strip()
    # An entry is one line here: how wide lines are is the screen's business.
    text = re.sub(r"\n {2,}(?![-*] )(?=\S)", " ", told[0].strip())
    return f"dirge {version.__version__}\n\n{text}"


COMMANDS = (
    Command(
        name="release-notes",
        summary="what is new in this version",
        run=release_notes,
        aliases=("changelog",),
        headless=True,
    ),
)
