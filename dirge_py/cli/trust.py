"""`dirge trust`: shows what a project would load or run, and trusts it."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from dirge_py.cli.arguments import Parser
from dirge_py.cli.flags import project_folder
from dirge_py.lib.text import visible
from dirge_py.types.errors import DirgeError, UsageError

if TYPE_CHECKING:
    from dirge_py.permission.project_trust import ProjectTrust


_STATES = {
    "none": "there are no project settings or plugins to load or run",
    "restricted": "restricted: new or changed files are not loaded",
    "trusted": "trusted",
}


def build_trust_parser() -> Parser:
    """The flags of `dirge trust`."""
    parser = Parser(
        prog="dirge trust",
        usage="dirge trust [--show [--json] | --accept HASH | --forget] [-C DIR]",
        description="Show what the .dirge folder of a project would load or run. Without a flag, "
        "dirge also asks whether to trust it, in a terminal.",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--show", action="store_true", help="list each file with its hash; runs nothing"
    )
    what.add_argument("--accept", metavar="HASH", help="trust exactly the files with this hash")
    what.add_argument("--forget", action="store_true", help="forget every decision")
    parser.add_argument("--json", action="store_true", help="with --show: one JSON object")
    parser.add_argument("-C", "--cwd", metavar="DIR", help="use the project around DIR")
    return parser


def trust(rest: Sequence[str]) -> int:
    """Show, accept or forget; returns the exit code, 1 if the files are not trusted."""
    flags = build_trust_parser().parse_args(list(rest))
    if flags.json and not flags.show:
        raise UsageError("--json needs --show.")
    from dirge_py.permission.project_trust import forget_project, inspect_project, trust_project

    project = inspect_project(project_folder(flags))
    if flags.show:
        sys.stdout.write(as_json(project) if flags.json else as_text(project))
        return 0
    if flags.forget:
        forget_project(project)
        sys.stdout.write(f"Forgot all decisions about {visible(str(project.root))}.\n")
        return 0
    if flags.accept is None:
        return _ask(project)
    if not project.files and not project.obstacle:
        raise DirgeError("this project has nothing to trust.")
    if flags.accept.lower() != project.digest and not project.obstacle:
        words = f"{visible(flags.accept)} is not the hash of these files: that is {project.digest}."
        raise DirgeError(words, hint="`dirge trust --show` lists them.")
    trust_project(project)
    sys.stdout.write(f"Trusted: {visible(str(project.root))} as {project.digest}\n")
    return 0


def as_json(project: "ProjectTrust") -> str:
    """What `--show --json` prints: one line."""
    names = ("path", "kind", "size", "sha256", "state")
    value: dict[str, Any] = {
        "project": str(project.root),
        "state": project.state,
        "digest": project.digest,
        "files": [{name: getattr(file, name) for name in names} for file in project.files],
        "refused": [asdict(refused) for refused in project.refused],
        "obstacle": project.obstacle,
    }
    return json.dumps(value) + "\n"


def as_text(project: "ProjectTrust") -> str:
    """What `--show` prints."""
    lines = [f"{visible(str(project.root))}: {_STATES[project.state]}"]
    if project.obstacle:
        lines.append(f"It cannot be trusted: {project.obstacle}.")
    lines += [
        f"{file.sha256}  {file.state:<7}  {file.kind:<8}  {file.size:>9,}  {visible(file.path)}"
        for file in project.files
    ]
    lines += [f"never loaded: {visible(file.path)}: {file.reason}" for file in project.refused]
    if project.files and not project.obstacle:
        lines.append(f"{project.digest}  all of them")
    return "\n".join(lines) + "\n"


def _ask(project: "ProjectTrust") -> int:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        hint = "Without one: `dirge trust --show`, then `dirge trust --accept HASH`."
        raise UsageError("`dirge trust` asks you, so it needs a terminal.", hint=hint)
    sys.stdout.write(as_text(project))
    if project.state != "restricted" or project.obstacle or not project.files:
        return 0
    from dirge_py.permission.project_trust import trust_project

    sys.stdout.write("Plugins run with your rights. Trust these files as they are now? [y/N] ")
    sys.stdout.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        sys.stdout.write("The project stays restricted.\n")
        return 1
    trust_project(project)
    sys.stdout.write("Trusted. dirge asks again when a file changes or is added.\n")
    return 0
