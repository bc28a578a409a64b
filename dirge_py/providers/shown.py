"""What tool results show: it comes behind the last of them, as most results hold only text.

Between two results nothing else may stand.
"""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.providers.assets import Asset, kind_of
from dirge_py.providers.history import Sendable
from dirge_py.types.messages import TextBlock, ToolResultMessage


@dataclass(frozen=True, slots=True)
class Shown:
    """The assets of the tool results in front of it, in their order."""

    assets: tuple[Asset, ...]

    @property
    def title(self) -> TextBlock:
        """What is said of them where they are a message of their own."""
        kinds = " and ".join(f"{kind}s" for kind in dict.fromkeys(map(kind_of, self.assets)))
        return TextBlock(f"The {kinds} of the tool results above:")


Entry: TypeAlias = Sendable | Shown


def with_shown(history: Iterable[Sendable]) -> Iterator[Entry]:
    """`history`, and behind each run of tool results what they show, if they show anything."""
    later: list[Asset] = []
    for message in history:
        if isinstance(message, ToolResultMessage):
            later += [block for block in message.content if not isinstance(block, TextBlock)]
        elif later:
            yield Shown(tuple(later))
            later = []
        yield message
    if later:
        yield Shown(tuple(later))


def result_texts(result: ToolResultMessage) -> list[str]:
    """What a result says, never nothing; a word in place of each thing that follows."""
    texts = [
        b.text if isinstance(b, TextBlock) else f"[The {kind_of(b)} follows the results.]"
        for b in result.content
    ]
    return [text for text in texts if text.strip()] or ["(no output)"]
