"""Programs that dirge starts by name: looked for where the project has no say."""

import os
from collections.abc import Iterator, Sequence

from dirge_py.lib.paths import is_below_any
from dirge_py.types.errors import ProcessError

_MOST_LINKS = 40


def find_program(
    name: str, *, path: str | None = None, outside: Sequence[str] | None = None
) -> str | None:
    """The first program `name` on `path` (None: PATH) that lies `outside` of these folders.

    Neither its name nor a link on the way to it may enter one of them: what is written there would
    choose the program. A relative entry of the path counts from the working directory, which is the
    project, so it is passed over. `outside` None means `project_folders()`.
    """
    folders = [os.path.realpath(each) for each in _default(outside)]
    searched = os.environ.get("PATH", os.defpath) if path is None else path
    for folder in searched.split(os.pathsep):
        program = os.path.join(folder, name)
        if not os.path.isabs(folder) or not _is_program(program):
            continue
        if not any(is_below_any(step, folders) for step in _steps(program)):
            return program
    return None


def find_inside(name: str) -> str | None:
    """The program `name` on PATH where only one in the project is, which dirge does not start."""
    if find_program(name) is not None:
        return None
    return find_program(name, outside=())


def why_not_found(name: str) -> str:
    """What is wrong where `find_program` found nothing, as the end of a sentence."""
    inside = find_inside(name)
    if inside is None:
        return "it is not on the PATH"
    return f"the only one on the PATH is in the project, {inside}"


def program_of_person(name: str) -> str:
    """The program to start where a person named it: a path as it is, a bare name from PATH.

    Raises:
        ProcessError: the name is found nowhere outside of the project.
    """
    if "/" in name:
        return name
    found = find_program(name)
    if found is None:
        raise ProcessError(
            f"{name} cannot be started: {why_not_found(name)}.",
            hint="Install it, or give its full path.",
        )
    return found


def project_folders(start: str | None = None) -> list[str]:
    """The working directory and the repository around it, as far as these are a project.

    A folder that holds the home folder is none: programs that the person installed are in there.
    """
    real = os.path.realpath(start or os.getcwd())
    home = os.path.realpath(os.path.expanduser("~"))
    found = [real]
    folder = real
    while folder != os.path.dirname(folder):
        if os.path.lexists(os.path.join(folder, ".git")):
            found.append(folder)
        folder = os.path.dirname(folder)
    return [each for each in found if not is_below_any(home, [each])]


def _default(outside: Sequence[str] | None) -> Sequence[str]:
    if outside is not None:
        return outside
    try:
        return project_folders()
    except FileNotFoundError:  # the working directory was deleted: nothing can be in there
        return ()


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _steps(path: str) -> Iterator[str]:
    """Every place that is looked at on the way to an absolute path, through all its links."""
    links = 0
    left = [part for part in reversed(path.split("/")) if part]
    at = "/"
    while left:
        part = left.pop()
        if part == ".":
            continue
        step = os.path.dirname(at) if part == ".." else os.path.join(at, part)
        yield step
        if part != ".." and os.path.islink(step) and links < _MOST_LINKS:
            links += 1
            target = os.readlink(step)
            left += [each for each in reversed(target.split("/")) if each]
            at = "/" if os.path.isabs(target) else at
        else:
            at = step
