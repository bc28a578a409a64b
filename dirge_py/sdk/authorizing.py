"""Who judges the calls of one conversation, and whom it asks, from the settings."""

from dirge_py.config.roles import usable_model
from dirge_py.config.schema import Config
from dirge_py.conversation.durable.remote_answers import RemotelyAnswered
from dirge_py.guards.judges import Judges
from dirge_py.permission.authorizer import Authorizer
from dirge_py.permission.judging import judging_with
from dirge_py.permission.settings import rule_keeper
from dirge_py.sdk.machine import Machine
from dirge_py.sdk.room import Room
from dirge_py.types.questions import Asker


def authorizer_of(
    config: Config, room: Room, judges: Judges, *, machine: Machine, asker: Asker, cwd: str
) -> Authorizer:
    """The one for a conversation in `room`, whose person is `asker`."""
    recorder = room.recorder
    if config.permission.remote and recorder is not None:
        asker = RemotelyAnswered(asker, room.durable, recorder.note)
    approve = judges.judge("approve") if usable_model(config, "approve") else None
    return Authorizer(
        gate=room.gate,
        asker=asker,
        workspace=machine.workspace,
        runner=machine.runner,
        cwd=cwd,
        on_grant=recorder.note_grant if recorder is not None else lambda rule: None,
        keep_rules=rule_keeper(config),
        loop_guard=config.permission.loop_guard,
        judge=judging_with(approve) if approve is not None else None,
        judge_effect=config.permission.judge,
    )
