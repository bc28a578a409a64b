"""`examine`: all checks of `dirge doctor`; here are those of settings, folders and programs."""

import os
import platform
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from dirge_py.config.access import key_files, open_key_files, provider_access
from dirge_py.config.load import load
from dirge_py.config.models import main_model
from dirge_py.config.paths import config_dir, config_file, state_dir
from dirge_py.config.schema import Config
from dirge_py.lib.own_file import weakness_of
from dirge_py.permission.project_trust import inspect_project
from dirge_py.processes.programs import find_inside, find_program, run_program
from dirge_py.processes.sandbox.read_only_mechanisms import find_mechanism
from dirge_py.providers.discovery import with_local_servers
from dirge_py.sdk.doctor.providers import check_providers, key_words
from dirge_py.sdk.doctor.report import CheckResult, failed, passed, skipped, warn
from dirge_py.sdk.doctor.terminal import (
    TerminalAnswers,
    check_terminal,
    check_terminal_answers,
    check_tmux,
)
from dirge_py.types.errors import ConfigError, DirgeError, ProcessError
from dirge_py.types.extensions import Extension

KeyProblems = Callable[[Config, bool], Sequence[str]]
"""What is wrong with the keys of these settings, where the kitty protocol is spoken or not."""
_LITTLE_BYTES = 200 * 1024 * 1024
_TOO_LITTLE_BYTES = 10 * 1024 * 1024
_NAME = "file access"
_ACTING = ("config.toml", "*.md", "plugins/**/*.py", "prompts/*.md", "themes/*.toml", "keys/*")
_LIMIT_S = 2.0
_OLDEST_GIT = (2, 25)
_READ_ONLY = "read-only commands cannot write, connect or run project files"


def examine(
    answers: TerminalAnswers | None,
    *,
    cwd: Path,
    size: tuple[int, int] | None,
    key_problems: KeyProblems,
    extensions: Iterable[Extension] = (),
    environment: Mapping[str, str] = os.environ,
    is_offline: bool = False,
) -> list[CheckResult]:
    """Run all checks; this takes some seconds if programs or services do not answer.

    Each provider is asked for its list of models, with its key; `is_offline`: nothing is sent.
    """
    settings, config = check_settings(environment, is_offline=is_offline)
    found = [
        *check_terminal(environment, size),
        *check_terminal_answers(answers, environment),
        *check_tmux(environment),
        *check_programs(environment),
        *settings,
        *(check_providers(config, environment, is_offline=is_offline) if config else ()),
        *check_ownership(environment, config),
        *check_folders(cwd, environment),
        *check_extensions(extensions),
    ]
    if config is not None:
        has_kitty = answers is not None and answers.has_kitty_keys
        problems = key_problems(config, has_kitty)
        found += [warn("keymap", problem, "edit [keys]") for problem in problems]
        found += [] if problems else [passed("keymap", "no conflicts")]
    return found


def check_settings(
    environment: Mapping[str, str], *, is_offline: bool
) -> tuple[list[CheckResult], Config | None]:
    """Check the settings and the provider they choose; its key is never shown.

    Without settings the local servers are asked, as at a start, unless `is_offline`.
    """
    try:
        config = load(environment=environment)
        config = config if is_offline else with_local_servers(config)
    except ConfigError as error:
        return [failed("settings", error.message, error.hint or "dirge config check")], None
    file = config.origin.path or f"{config_file(environment)} (none: the defaults apply)"
    return [passed("settings", str(file)), _provider(config)], config


def _provider(config: Config) -> CheckResult:
    try:
        choice = main_model(config)
        access = provider_access(config, choice.alias, is_main=True)
    except ConfigError as error:
        return failed("provider", error.message, error.hint or "dirge config check")
    return passed("provider", f"{choice.name}, {key_words(config, access)}")


def check_extensions(extensions: Iterable[Extension]) -> Iterator[CheckResult]:
    """Return the state of each loaded extension that has one, with its notices if it isn't ok."""
    for extension in extensions:
        state = extension.status()
        if state is not None and state.is_ok:
            yield passed(extension.name, state.text)
        elif state is not None:
            yield warn(extension.name, " ".join([f"{state.text}.", *extension.notices()]))


def check_folders(cwd: Path, environment: Mapping[str, str]) -> Iterator[CheckResult]:
    """Check the state folder, and the trust in the project."""
    try:
        yield _state(state_dir(environment))
        yield _trust(cwd, environment)
    except DirgeError as error:
        yield failed("folders", error.message, error.hint)


def _state(folder: Path) -> CheckResult:
    there = folder
    # `Path.exists` raises where a folder above may not be entered.
    while not os.path.exists(there) and there != there.parent:
        there = there.parent
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        fix = f"chmod u+rwx {there}; or set DIRGE_STATE_DIR to another folder"
        return failed("state folder", f"{folder}: cannot be written", fix)
    state = os.statvfs(there)
    free = state.f_bavail * state.f_frsize
    words = f"{folder}, {free / 1024**3:,.1f} GiB free"
    if free < _LITTLE_BYTES:
        tell = failed if free < _TOO_LITTLE_BYTES else warn
        return tell("state folder", words, "free space; `dirge sessions` lists old sessions")
    return passed("state folder", words)


def _trust(cwd: Path, environment: Mapping[str, str]) -> CheckResult:
    project = inspect_project(cwd, environment)
    if project.obstacle:
        return warn("trust", f"{project.root}: {project.obstacle}", "dirge trust --show")
    match project.state:
        case "restricted":
            words = f"{project.root} has settings or plugins that are not loaded"
            return warn("trust", words, "dirge trust")
        case "trusted":
            return passed("trust", f"{project.root} is trusted")
        case _:
            return skipped("trust", f"{project.root} has no files that need trust")


def check_ownership(environment: Mapping[str, str], config: Config | None) -> Iterator[CheckResult]:
    """Find files that control dirge and that other users can write, each with its fix."""
    try:
        folder = config_dir(environment)
    except DirgeError:
        return  # another check reports it
    files = [path for pattern in _ACTING for path in sorted(folder.glob(pattern))]
    found = list(_own_file_results([*files, *(key_files(config) if config is not None else ())]))
    for path, weakness in open_key_files(config) if config is not None else ():
        found.append(warn(_NAME, f"{path} {weakness.words}", weakness.fix))
    yield from found or [passed(_NAME, f"only you can change the files in {folder}")]


def _own_file_results(files: list[Path]) -> Iterable[CheckResult]:
    found: dict[str, CheckResult] = {}
    for path in dict.fromkeys(files):
        with suppress(OSError):
            if path.is_file() and (weakness := weakness_of(str(path))):
                # One file of a folder that others can write is enough: one command fixes them all.
                words, fix = f"{path} {weakness.words}", weakness.fix
                found.setdefault(fix, failed(_NAME, words, fix))
    return found.values()


def check_programs(environment: Mapping[str, str]) -> Iterator[CheckResult]:
    """Check Python, git, ripgrep, the sandboxes, the editor and the pager."""
    yield passed("python", f"{platform.python_version()}, {sys.executable}")
    yield _git()
    yield _version_finding("rg", "searching is slower", "install ripgrep")
    if sys.platform.startswith("linux"):
        yield _version_finding("bwrap", "the sandbox does less", "install bubblewrap")
    yield _read_only_profile()
    yield _editor(environment)
    yield _pager(environment)


def _read_only_profile() -> CheckResult:
    mechanism = find_mechanism()
    if mechanism.kind == "landlock" or mechanism.kind == "seatbelt":
        return passed("read-only", f"{mechanism}: {_READ_ONLY}")
    fix = "use a kernel with Landlock (Linux 5.13 or newer)"
    if mechanism.kind is None and sys.platform.startswith("linux"):
        fix += ", or install bubblewrap"
    words = f"{mechanism}; read-only commands run without this protection"
    return warn("read-only", str(mechanism) if mechanism.kind else words, fix)


def _git() -> CheckResult:
    words = _version("git")
    if not words:
        return failed("git", f"{_absent('git')}: no snapshots, no /undo of files", "install git")
    found = re.search(r"(\d+)\.(\d+)", words)
    if found and (int(found[1]), int(found[2])) < _OLDEST_GIT:
        return warn("git", f"{words} is old", "install git 2.25 or newer")
    return passed("git", words)


def _version_finding(program: str, loss: str, fix: str) -> CheckResult:
    words = _version(program)
    return passed(program, words) if words else warn(program, f"{_absent(program)}: {loss}", fix)


def _absent(program: str) -> str:
    """Why a program is not used. One inside the project is never run."""
    inside = find_inside(program)
    return f"only found inside the project, at {inside}" if inside else "not found"


def _editor(environment: Mapping[str, str]) -> CheckResult:
    name = "VISUAL" if environment.get("VISUAL") else "EDITOR"
    wanted = environment.get(name) or "vi"
    if _is_there(wanted):
        return passed("editor", wanted)
    how = _absent(wanted.partition(" ")[0])
    return warn("editor", f"{wanted} is {how}: Ctrl+G won't work", "export EDITOR=nano")


def _pager(environment: Mapping[str, str]) -> CheckResult:
    wanted = environment.get("PAGER", "")
    if wanted and not _is_there(wanted):
        return warn("pager", f"PAGER={wanted} is not found", "export PAGER='less -R'")
    known = [name for name in (wanted, "less", "more") if name and _is_there(name)]
    return passed("pager", known[0]) if known else warn("pager", "none", "install less")


def _is_there(command: str) -> bool:
    try:
        program = shlex.split(command)[0]
    except (ValueError, IndexError):
        return False
    return (shutil.which(program) if "/" in program else find_program(program)) is not None


def _version(program: str) -> str:
    """The first line of `--version`; empty if the program is missing or fails."""
    try:
        ended = run_program((program, "--version"), limit_s=_LIMIT_S)
    except ProcessError:
        return ""
    said = ended.out.decode(errors="replace").strip() if ended.code == 0 else ""
    return said.partition("\n")[0]
