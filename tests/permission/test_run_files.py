"""The files that a command would run, found from its text."""

import os
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dirge_py.permission.run_files import MAX_FILES, files_run
from dirge_py.types.tools import ShellCommand

from .conftest import Project

WORDS = st.sampled_from(
    [
        *[
            "bash",
            "sh",
            "-c",
            "python3",
            "-m",
            "pytest",
            "make",
            "env",
            "X=1",
            "./b.sh",
            "b.sh",
            "d/./b.sh",
            "cd",
            "d",
            "&&",
            "||",
            "|",
            ";",
        ],
        *[
            "<",
            ">",
            "$(",
            ")",
            "`",
            "'",
            "*",
            "?",
            "[",
            "{",
            "}",
            "~",
            "~/x",
            "$HOME/x",
            "$PWD/b.sh",
            "/",
            "-C",
            "--prefix=d",
            "xargs",
            "git",
            "--",
        ],
        *('"', "\\", "\n", "\0", "@b.sh", "<<", "EOF"),
    ]
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("place").resolve()
    (base / "d").mkdir()
    for name in ("b.sh", "d/b.sh", "Makefile", "d/test_a.py"):
        (base / name).write_text(name)
    (base / "loop").symlink_to("loop")
    os.mkfifo(base / "pipe")
    return base


def find_files(place: Path, text: str) -> dict[str, str]:
    return dict(files_run([ShellCommand(text, str(place))], home=str(place), path="/usr/bin"))


@example(text="cd / pytest *")  # has links in /proc that nobody may read
@given(st.one_of(st.text(max_size=60), st.lists(WORDS, max_size=12).map(" ".join)))
def test_files_run_returns_same_result_twice_for_any_command_line(place: Path, text: str) -> None:
    first, second = find_files(place, text), find_files(place, text)
    # Other files, as below `/`, change while this runs.
    ours = [path for path in {*first, *second} if path.startswith(f"{place}/")]
    assert all(first.get(path) == second.get(path) for path in ours)


@given(st.lists(WORDS, max_size=4), st.lists(WORDS, max_size=4))
def test_script_between_other_commands_is_always_found(
    place: Path, before: list[str], after: list[str]
) -> None:
    def quoted(words: list[str]) -> str:
        return "echo " + " ".join("'" + word.replace("'", "") + "'" for word in words)

    found = find_files(place, f"{quoted(before)}; bash ./b.sh && {quoted(after)}")

    assert f"{place}/b.sh" in found


@pytest.mark.parametrize("name", ["pipe", "loop", "d", "missing", "x" * 5000])
def test_path_that_is_no_regular_file_never_blocks(place: Path, name: str) -> None:
    assert f"{place}/b.sh" in find_files(place, f"bash {name} ./b.sh")


def test_folder_name_with_nul_byte_is_skipped(place: Path) -> None:
    assert f"{place}/b.sh" in find_files(place, "make -C 'a\0b'; bash ./b.sh")


def test_files_run_returns_at_most_max_files(tmp_path: Path) -> None:
    folder = tmp_path.resolve()
    for number in range(MAX_FILES + 50):
        (folder / f"{number:04}.sh").write_text("x")

    assert len(find_files(folder, "cat * | bash")) == MAX_FILES


def test_script_in_long_command_line_is_found(place: Path) -> None:
    text = "echo " + "x" * 20_000 + "; bash ./b.sh"

    assert f"{place}/b.sh" in find_files(place, text)


@pytest.mark.parametrize(
    "command",
    ["git -c core.hooksPath=h commit -m x", "git -c CORE.hookspath=h commit -m x",
     "git -c 'core.hooksPath=h' commit -m x", "cd d && git -c core.hooksPath=h commit -m x",
     "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.hooksPath GIT_CONFIG_VALUE_0=h git commit -m x",
     "H=h git --config-env=core.hooksPath=H commit -m x",
     "HOOKS=1 git -C d -c core.hooksPath=~/h commit -m x"],
)  # fmt: skip
@pytest.mark.parametrize("others", [0, MAX_FILES + 1])
def test_hook_in_hooks_folder_named_by_command_is_found(
    own_project: Project, command: str, others: int
) -> None:
    base = own_project.home if "~" in command else own_project.root
    hook = base / "h/pre-commit"
    hook.parent.mkdir()
    (own_project.root / "d").mkdir()
    for number in range(others):
        (hook.parent / f"x{number}").touch()
    asked = ShellCommand(command, str(own_project.root))
    home = str(own_project.home)
    first = files_run([asked], home=home)

    hook.write_text("exit 0\n")
    second = files_run([asked], home=home)
    hook.write_text("exit 1; curl x\n")

    assert str(hook) in dict(first.items() ^ second.items())
    third = files_run([asked], home=home)
    assert str(hook) in dict(second.items() ^ third.items())
