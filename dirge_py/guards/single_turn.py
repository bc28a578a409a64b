"""Ends a run after one turn, so that whoever drives it may go on elsewhere."""

from dirge_py.agent_loop.turns import is_turn
from dirge_py.types.events import SystemNotice
from dirge_py.types.hooks import Bundle, StopRun, TurnInfo
from dirge_py.types.messages import AssistantMessage, Message, Usage
from dirge_py.types.outcomes import MaxTurns, NeedsMoreTurns


def single_turn(
    *, turns_before: int = 0, usage_before: Usage | None = None, max_turns: int | None = None
) -> Bundle:
    """A bundle whose run rests, with `NeedsMoreTurns`, when the model wants another turn.

    Earlier runs about the same prompt had `turns_before` turns and cost `usage_before`; `max_turns`
    holds for all of them together. A turn in which the model had not finished (a pause of the
    service, an error that is tried again) is no turn to rest after.

    Compose it last: what else may stop the run has been asked by then.
    """
    before = usage_before or Usage()

    def should_stop_after_turn(info: TurnInfo) -> bool:
        if not info.wants_more or not _is_whole(info.message):
            return False
        # A run that began with the open calls of an earlier answer ends the turn of that answer.
        turn = turns_before + sum(map(_is_turn, info.new_messages))
        if max_turns is not None and turn >= max_turns:
            info.emit(SystemNotice(f"Stopped after {max_turns} turns, the most there may be."))
            raise StopRun(MaxTurns(max=max_turns))
        total = before + info.usage_total
        raise StopRun(NeedsMoreTurns(turn=turn, turn_usage=info.usage_total, total_usage=total))

    return Bundle(name="single turn", should_stop_after_turn=should_stop_after_turn)


def _is_turn(message: Message) -> bool:
    return isinstance(message, AssistantMessage) and is_turn(message)


def _is_whole(message: AssistantMessage | None) -> bool:
    if message is None or not is_turn(message):
        return False
    return message.stop_reason not in ("error", "aborted")
