"""Builds the permission engine at start: turns settings and flags into rules."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from dirge_py.config.access import key_files
from dirge_py.config.paths import config_dir, config_file, state_dir
from dirge_py.config.schema import Config
from dirge_py.config.services import SERVICES
from dirge_py.files.workspace import Workspace
from dirge_py.lib.lazy import late_pattern
from dirge_py.permission.engine import PermissionEngine
from dirge_py.permission.path_resolver import holds_more_than_project
from dirge_py.permission.rules import (
    Anchors,
    PolicySet,
    Rule,
    make_rule,
    parse_claude_rules,
    parse_rule,
)
from dirge_py.types.errors import ConfigError

_NO_ANCHORS = Anchors()
_VARIABLE = late_pattern(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class RuleOptions(Protocol):
    """The rules that flags and the project add; `sdk.options.BuildOptions` implements this.

    `allow` and `deny` hold rules as `op:pattern`, the others rules in Claude Code's syntax.
    """

    @property
    def allow(self) -> Sequence[str]: ...
    @property
    def deny(self) -> Sequence[str]: ...
    @property
    def allowed_tools(self) -> Sequence[str]: ...
    @property
    def disallowed_tools(self) -> Sequence[str]: ...

    @property
    def project_rules(self) -> Sequence[Rule]:
        """The rules of a trusted project."""


def open_engine(
    config: Config,
    options: RuleOptions,
    workspace: Workspace,
    output_dir: Path | None,
    *,
    is_sandboxed: bool = False,
    anchors: Anchors = _NO_ANCHORS,
    make: Callable[..., PermissionEngine] = PermissionEngine,
) -> PermissionEngine:
    """Return the permission engine of one conversation.

    `output_dir` holds its own output, and is readable. `is_sandboxed`: commands run in a sandbox
    that was tested. `anchors` are added to those of the workspace; `make` is the class of the
    engine. Raises UsageError if a flag holds an invalid rule, and ConfigError if a
    `[[permission.rule]]` is invalid, or a project wants to allow something.
    """
    for rule in options.project_rules:
        if rule.effect == "allow":
            raise ConfigError(
                f"{rule.source or 'the project'}: the rule `{rule}` allows something.",
                hint="A project's rules can only ask or deny. Allow it in your own settings.",
            )
    environment = config.origin.environment
    own_file = [Path(config.origin.path)] if config.origin.path else []
    engine = make(
        workspace,
        PolicySet(
            rules=_rules(config, options),
            project_rules=tuple(options.project_rules),
            mode=config.permission.mode,
            is_sandboxed=is_sandboxed,
            anchors=anchors,
        ),
        state_dirs=[*state_folders(environment), *key_files(config)],
        settings=[*settings_folders(environment), *own_file],
        own_output_dirs=[output_dir] if output_dir is not None else [],
    )
    workspace.withheld = engine.withholds
    return engine


def wide_workspace_notices(config: Config, workspace: Workspace) -> Sequence[str]:
    """Return what to tell the user if the workspace holds more than a project."""
    environment = config.origin.environment or os.environ
    home = os.path.realpath(environment.get("HOME") or os.path.expanduser("~"))
    if not all(holds_more_than_project(root, home) for root in workspace.roots):
        return ()
    root = workspace.roots[0]
    words = f"The workspace is {root}, so dirge asks before each edit."
    return [f"{words} Start it in a project folder instead."]


def rule_keeper(config: Config) -> Callable[[Sequence[str]], str]:
    """Return a function that stores allow rules in the user's settings and returns the file's name.

    That function raises ConfigError or FileError if the file cannot be changed.
    """
    origin = config.origin
    file = Path(origin.path) if origin.path else config_file(origin.environment)

    def keep(rules: Sequence[str]) -> str:
        # Imported here: it loads the TOML writer.
        from dirge_py.config.edit import save_rules

        return str(save_rules(rules, file=file))

    return keep


def key_variables(config: Config) -> list[str]:
    """Return the environment variables that may hold a key: commands never get them."""
    names = [name for service in SERVICES for name in service.key_env]
    for entry in config.providers.values():
        names += [entry.api_key_env] if entry.api_key_env else []
        names += [entry.api_key.removeprefix("${").removesuffix("}")] if entry.api_key else []
        names += [name for value in entry.headers.values() for name in _VARIABLE.findall(value)]
    return names


def _rules(config: Config, options: RuleOptions) -> tuple[Rule, ...]:
    """Return the rules of the settings, then those of the flags, in order."""
    source = config.origin.path or "settings"
    rules = [
        make_rule(rule.op, rule.match, rule.effect, source=source, error=ConfigError)
        for rule in config.permission.rule
    ]
    rules += [parse_rule(text, "allow", source="--allow") for text in options.allow]
    for text in options.allowed_tools:
        rules += parse_claude_rules(text, "allow", source="--allowedTools")
    rules += [parse_rule(text, "deny", source="--deny") for text in options.deny]
    for text in options.disallowed_tools:
        rules += parse_claude_rules(text, "deny", source="--disallowedTools")
    return tuple(rules)


def state_folders(environment: Mapping[str, str]) -> list[Path]:
    """Return dirge's folders for state and keys: in this environment, and the default ones."""
    every = _environments(environment)
    return [*map(state_dir, every), *(config_dir(one) / "keys" for one in every)]


def settings_folders(environment: Mapping[str, str]) -> list[Path]:
    """Return the folders of dirge's settings: in this environment, and the default ones."""
    return list(map(config_dir, _environments(environment)))


def _environments(environment: Mapping[str, str]) -> list[Mapping[str, str]]:
    """Return the environment, and a copy without the variables that name dirge's folders."""
    own = ("DIRGE_CONFIG_DIR", "DIRGE_STATE_DIR")
    default = {name: value for name, value in environment.items() if name not in own}
    usable: list[Mapping[str, str]] = []
    for each in (environment, default):
        with suppress(ConfigError):  # Without a home folder there are no default folders.
            config_dir(each)
            state_dir(each)
            usable.append(each)
    return usable
