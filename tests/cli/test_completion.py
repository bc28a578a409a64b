"""The scripts of `dirge completion`, in their shells."""

import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from dirge_py.cli.arguments import MODES, SESSIONS_VERBS, build_parser
from dirge_py.cli.completion import SCRIPTS, command_specs, completion, completion_fits
from dirge_py.types.errors import UsageError
from tests.house.test_docs import SUBCOMMANDS
from tests.support.product import Product
from tests.support.requirements import lacking

BASH = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _dirge; printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Path]:
    found = {}
    for shell in SCRIPTS:
        assert completion([shell]) == 0
        found[shell] = tmp_path / f"dirge.{shell}"
        found[shell].write_text(capsys.readouterr().out)
    return found


def output(command: Sequence[str], cwd: Path) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


def in_bash(script: Path, *words: str) -> list[str]:
    return output(["bash", "--norc", "-c", BASH, "bash", str(script), *words], script.parent)


def in_fish(script: Path, line: str) -> list[str]:
    if shutil.which("fish") is None:
        lacking("fish")
    asked = f"source {shlex.quote(str(script))}; complete -C {shlex.quote(line)}"
    text = output(["fish", "--no-config", "-c", asked], script.parent)
    return [line.split("\t")[0] for line in text]


def test_bash_completes_flags_subcommands_and_values(script: dict[str, Path]) -> None:
    def offered(*words: str) -> list[str]:
        return in_bash(script["bash"], "dirge", *words)

    assert offered("--permission-m") == ["--permission-mode"]
    assert offered("--permission-mode", "") == list(MODES)
    assert offered("--permission-mode", "re") == ["restrictive"]
    assert {"sessions", "signal"} <= set(offered("s"))
    assert set(SESSIONS_VERBS) <= set(offered("sessions", ""))
    assert "--format" in offered("sessions", "export", "--")
    assert offered("trust", "--acc") == ["--accept"]
    assert offered("why", "bash_") == ["bash_output"]
    assert offered("-C", "nowhere") == [""]
    assert offered("fix", "s") == [""]


def test_bash_completes_files_after_path_flags(script: dict[str, Path]) -> None:
    (script["bash"].parent / "some folder").mkdir()

    assert in_bash(script["bash"], "dirge", "--config", "dirge.z") == ["dirge.zsh"]
    assert in_bash(script["bash"], "dirge", "-C", "some") == ["some folder"]


def test_fish_completes_flags_subcommands_and_values(script: dict[str, Path]) -> None:
    file = script["fish"]
    assert in_fish(file, "dirge --permission-m") == ["--permission-mode"]
    assert in_fish(file, "dirge --permission-mode ") == sorted(MODES)
    assert set(in_fish(file, "dirge sessions ")) == set(SESSIONS_VERBS)
    assert "--format" in in_fish(file, "dirge sessions export --")
    assert "--format" not in in_fish(file, "dirge --")


def test_zsh_loads_script(script: dict[str, Path]) -> None:
    if shutil.which("zsh") is None:
        lacking("zsh")
    assert output(["zsh", "-n", str(script["zsh"])], script["zsh"].parent) == []
    asked = "autoload -U compinit; compinit -D -u; source $1; print $_comps[dirge]"
    assert output(["zsh", "-f", "-c", asked, "zsh", str(script["zsh"])], script["zsh"].parent) == [
        "_dirge"
    ]


def test_every_visible_flag_is_offered() -> None:
    main = next(place for place in command_specs() if place.name == "")
    offered = {name for flag in main.flags for name in flag.option_strings}

    text = build_parser().format_help()
    assert {"--model", "--sandbox", "-p"} <= offered
    assert all(name in text for name in offered)
    assert "--effort" not in offered


def test_every_subcommand_is_offered() -> None:
    main = next(place for place in command_specs() if place.name == "")

    # `exec` is a hidden alias of -p.
    assert set(main.words) == set(SUBCOMMANDS) - {"exec"}


def test_completion_subcommand_prints_script(product: Product) -> None:
    result = product.run("completion", "bash")

    assert result.exit_code == 0
    assert "complete -o default -F _dirge dirge" in result.stdout
    assert product.run("completion", "--help").exit_code == 0


@pytest.mark.parametrize(
    ("words", "fits"),
    [("", True), ("bash", True), ("--help", True), ("bash scripts", False), ("of this", False)],
)
def test_completion_followed_by_other_words_is_a_prompt(words: str, fits: bool) -> None:
    assert completion_fits(words.split()) is fits


def test_missing_or_unknown_shell_is_usage_error() -> None:
    for words in ((), ("csh",)):
        with pytest.raises(UsageError):
            completion(words)
