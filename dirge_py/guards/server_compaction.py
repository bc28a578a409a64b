"""Tells that the service folded old history itself (`messages.CompactionBlock`)."""

from dirge_py.types.events import ContextCompacted
from dirge_py.types.hooks import Bundle, TurnInfo
from dirge_py.types.messages import CompactionBlock, Usage


def server_compaction() -> Bundle:
    """A hook that announces every block of folded history in an answer.

    Its figures are the answer's own: what the service read, and what it made of it. A block without
    a summary is a fold that failed: nothing was shortened, so nothing is told.
    """

    def after_turn(info: TurnInfo) -> None:
        if info.message is None:
            return
        usage = info.message.usage or Usage()
        for block in info.message.content:
            if isinstance(block, CompactionBlock) and block.text:
                info.emit(
                    ContextCompacted(
                        tokens_before=usage.input,
                        tokens_after=usage.output,
                        first_kept_index=len(info.context.messages) - 1,
                        kind="server",
                        summary=block.text,
                        summary_model=info.message.model,
                    )
                )

    return Bundle(name="server compaction", prepare_next_turn=after_turn)
