"""All that is looked at, in the order in which it is told."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dirge_py.config.schema import Config
from dirge_py.sdk.doctor.asking import TerminalAnswers
from dirge_py.sdk.doctor.findings import Finding, warn, well
from dirge_py.sdk.doctor.ownership import look_at_ownership
from dirge_py.sdk.doctor.place import look_at_folders, look_at_settings
from dirge_py.sdk.doctor.programs import look_at_programs
from dirge_py.sdk.doctor.providers import look_at_providers
from dirge_py.sdk.doctor.terminal import look_at_answers, look_at_terminal
from dirge_py.sdk.doctor.tmux import look_at_tmux

KeyProblems = Callable[[Config, bool], Sequence[str]]
"""What is wrong with the keys of these settings, where the kitty protocol is spoken or not."""


def examine(
    answers: TerminalAnswers | None,
    *,
    cwd: Path,
    size: tuple[int, int] | None,
    key_problems: KeyProblems,
    environment: Mapping[str, str] = os.environ,
    is_offline: bool = False,
) -> list[Finding]:
    """Everything; takes up to some seconds where programs or services do not answer.

    Each provider is asked for its list of models, with its key; `is_offline`: nothing is sent.
    """
    settings, config = look_at_settings(environment, is_offline=is_offline)
    found = [
        *look_at_terminal(environment, size),
        *look_at_answers(answers, environment),
        *look_at_tmux(environment),
        *look_at_programs(environment),
        *settings,
        *(look_at_providers(config, environment, is_offline=is_offline) if config else ()),
        *look_at_ownership(environment, config),
        *look_at_folders(cwd, environment),
    ]
    if config is not None:
        has_kitty = answers is not None and answers.has_kitty_keys
        problems = key_problems(config, has_kitty)
        found += [warn("keymap", problem, "edit [keys]") for problem in problems]
        found += [] if problems else [well("keymap", "no conflicts")]
    return found
