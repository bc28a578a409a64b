"""The programs that dirge starts: whether they are there, and how old they are."""

import platform
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping

from dirge_py.processes.programs import find_inside, find_program, run_program
from dirge_py.processes.sandbox.read_only_mechanisms import find_mechanism
from dirge_py.sdk.doctor.findings import Finding, warn, well, wrong
from dirge_py.types.errors import ProcessError

_LIMIT_S = 2.0
_OLDEST_GIT = (2, 25)
_READ_ONLY = "read-only commands can't write, connect or run project files"


def look_at_programs(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Python, git, ripgrep, the sandboxes, the editor and the pager."""
    yield well("python", f"{platform.python_version()}, {sys.executable}")
    yield _git()
    yield _version_finding("rg", "searching is slower", "install ripgrep")
    if sys.platform.startswith("linux"):
        yield _version_finding("bwrap", "the sandbox does less", "install bubblewrap")
    yield _read_only_profile()
    yield _editor(environment)
    yield _pager(environment)


def _read_only_profile() -> Finding:
    mechanism = find_mechanism()
    if mechanism.kind == "landlock" or mechanism.kind == "seatbelt":
        return well("read-only", f"{mechanism}: {_READ_ONLY}")
    fix = "use a kernel with Landlock (Linux 5.13 or newer)"
    if mechanism.kind is None and sys.platform.startswith("linux"):
        fix += ", or install bubblewrap"
    words = f"{mechanism}; read-only commands run without this protection"
    return warn("read-only", str(mechanism) if mechanism.kind else words, fix)


def _git() -> Finding:
    words = _version("git")
    if not words:
        return wrong("git", f"{_absent('git')}: no snapshots, no /undo of files", "install git")
    found = re.search(r"(\d+)\.(\d+)", words)
    if found and (int(found[1]), int(found[2])) < _OLDEST_GIT:
        return warn("git", f"{words} is old", "install git 2.25 or newer")
    return well("git", words)


def _version_finding(program: str, loss: str, fix: str) -> Finding:
    words = _version(program)
    return well(program, words) if words else warn(program, f"{_absent(program)}: {loss}", fix)


def _absent(program: str) -> str:
    """Why a program is not used. One that the project brings is not run: not even to ask it."""
    inside = find_inside(program)
    return f"only found inside the project, at {inside}" if inside else "not found"


def _editor(environment: Mapping[str, str]) -> Finding:
    name = "VISUAL" if environment.get("VISUAL") else "EDITOR"
    wanted = environment.get(name) or "vi"
    if _is_there(wanted):
        return well("editor", wanted)
    how = _absent(wanted.partition(" ")[0])
    return warn("editor", f"{wanted} is {how}: Ctrl+G will not work", "export EDITOR=nano")


def _pager(environment: Mapping[str, str]) -> Finding:
    wanted = environment.get("PAGER", "")
    if wanted and not _is_there(wanted):
        return warn("pager", f"PAGER={wanted} is not found", "export PAGER='less -R'")
    known = [name for name in (wanted, "less", "more") if name and _is_there(name)]
    return well("pager", known[0]) if known else warn("pager", "none", "install less")


def _is_there(command: str) -> bool:
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    if not words:
        return False
    is_path = "/" in words[0]
    return (shutil.which(words[0]) if is_path else find_program(words[0])) is not None


def _version(program: str) -> str:
    """The first line of what it says of itself; empty if it is not there or does not run."""
    if not find_program(program):
        return ""
    try:
        ended = run_program((program, "--version"), limit_s=_LIMIT_S)
    except ProcessError:
        return ""
    said = ended.out.decode(errors="replace").strip().splitlines()
    return said[0] if ended.code == 0 and said else ""
