"""What the flags choose, as the settings and options that everything else understands."""

import os
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from dirge_py.cli.arguments import MODES, folders
from dirge_py.types.errors import UsageError

if TYPE_CHECKING:
    from dirge_py.config.schema import Config
    from dirge_py.config.sources import Overrides
    from dirge_py.sdk.options import BuildOptions, SessionChoice

MOST_PERMISSIVE_FIRST = ("yolo", "accept", "standard", "restrictive", "plan")
assert set(MODES) == set(MOST_PERMISSIVE_FIRST)

_SANDBOX_NAMES = {"bwrap": "required"}


def load_settings(flags: Namespace, api_key: str | None = None) -> "Config":
    """The settings, with what the flags say in their place. Raises ConfigError."""
    from dirge_py.config.load import load

    return load(_overrides(flags, api_key), path=Path(flags.config) if flags.config else None)


def key_from_stdin() -> str:
    """The first line of stdin. Raises UsageError: it is empty."""
    key = sys.stdin.readline().strip()
    if not key:
        raise UsageError("--api-key-stdin: no key came on stdin.")
    return key


def build_options(flags: Namespace) -> "BuildOptions":
    """The flags that are no settings. Raises UsageError."""
    from dirge_py.sdk.options import BuildOptions

    return BuildOptions(
        session=_session_choice(flags),
        add_dirs=folders(flags.add_dir),
        allow=tuple(flags.allow),
        deny=tuple(flags.deny),
        allowed_tools=tuple(flags.allowedTools),
        disallowed_tools=tuple(flags.disallowedTools),
        system_prompt=_text(flags.system_prompt, flags.system_prompt_file),
        append_system_prompt=_text(flags.append_system_prompt, flags.append_system_prompt_file),
        prompt=flags.prompt_name,
        log=flags.verbose or bool(os.environ.get("DIRGE_LOG")),
        record=flags.record,
    )


def _overrides(flags: Namespace, api_key: str | None) -> "Overrides":
    from dirge_py.config.sources import Overrides

    return Overrides(
        provider=flags.provider,
        model=flags.model,
        base_url=flags.base_url,
        thinking=flags.thinking,
        api_key=api_key,
        api_key_file=flags.api_key_file,
        permission_mode=_mode(flags),
        max_turns=flags.max_turns,
        max_cost_usd=flags.max_cost,
        max_tokens=flags.max_tokens,
        timeout_s=flags.timeout,
        tools=tuple(flags.tools.split(",")) if flags.tools is not None else None,
        no_tools=flags.no_tools,
        no_context_files=flags.no_context_files,
        no_session=flags.no_session,
        sandbox=_SANDBOX_NAMES.get(flags.sandbox, flags.sandbox),
    )


def _mode(flags: Namespace) -> str | None:
    asked = [
        mode
        for mode, given in (
            ("yolo", flags.yolo),
            ("accept", flags.accept_all),
            ("restrictive", flags.restrictive),
            (flags.permission_mode, flags.permission_mode is not None),
        )
        if given
    ]
    if not asked:
        return None
    chosen = min(asked, key=MOST_PERMISSIVE_FIRST.index)
    if len(set(asked)) > 1:
        sys.stderr.write(f"dirge: several permission modes were asked for; {chosen} it is.\n")
    return str(chosen)


def _session_choice(flags: Namespace) -> "SessionChoice":
    from dirge_py.sdk.options import SessionChoice

    fork = flags.fork_session
    if flags.no_session:
        return SessionChoice(kind="none")
    if flags.continue_:
        return SessionChoice(kind="newest", fork=fork)
    if flags.resume:
        return SessionChoice(kind="resume", id=flags.resume, fork=fork)
    if flags.session is not None:
        return SessionChoice(kind="named", id=flags.session, fork=fork)
    return SessionChoice(kind="new", fork=fork)


def _text(text: str | None, path: str | None) -> str | None:
    if text is not None and path is not None:
        raise UsageError("a prompt was given both as text and as a file.")
    if path is None:
        return text
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}.") from error
