"""Programs that open an editor or ask for a password, run as the model's commands."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from dirge_py.processes.environment import EnvironmentPolicy, may_be_passed
from dirge_py.processes.runner import Runner

LIMIT_S = 30.0
HOLDING = "vim"
"""An editor that would wait for input, set in every place that can name an editor."""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two commits on `main`, one on `side`, and an editor in git's settings."""
    where = tmp_path / "repository"
    where.mkdir()
    steps = (
        "git init -q -b main . && git config user.name u && git config user.email u@example.com"
        f" && git config core.editor {HOLDING} && git config sequence.editor {HOLDING}"
        " && echo a > a && git add a && git commit -qm first && git branch side"
        " && echo b >> a && git commit -qam second && git checkout -q side"
        " && echo c > c && git add c && git commit -qm third && git checkout -q main"
    )
    subprocess.run(["sh", "-c", steps], cwd=where, check=True, env={**os.environ, "HOME": "/"})
    return where


@pytest.fixture
def run_in_repository(repository: Path, runner: Runner):
    async def run(command: str) -> tuple[int | None, str]:
        done = await runner.run(command, cwd=str(repository), timeout_s=LIMIT_S)
        return done.exit_code, (done.output.head + done.output.tail).decode()

    return run


@pytest.mark.parametrize(
    "command",
    [
        "git commit --allow-empty", "echo d >> a; git commit -a", "echo d >> a; git commit -av",
        "git tag -a v1", "git notes add", "git commit --allow-empty -t /dev/null",
    ],
)  # fmt: skip
async def test_git_command_without_message_fails_with_hint_to_pass_message(
    run_in_repository, command
):
    code, text = await run_in_repository(command)

    assert code != 0
    assert "There is no editor here. Pass the message with -m" in text
    assert "eval" not in text.partition("There is no editor")[0]


@pytest.mark.parametrize(
    ("command", "kept"),
    [
        ("git commit --amend --allow-empty", "second"),
        ("git merge --edit side", "Merge branch 'side'"),
        ("git merge side", "Merge branch 'side'"),
        ("git revert HEAD", 'Revert "second"'),
        ("git merge --squash side && git commit", "Squashed commit of the following:"),
        ("git cherry-pick --edit side", "third"),
    ],
)
async def test_message_prepared_by_git_is_used(run_in_repository, command, kept):
    code, text = await run_in_repository(f"{command} && git log -1 --format=%s")

    assert (code, text.splitlines()[-1]) == (0, kept)


async def test_rebase_continues_after_conflict(run_in_repository):
    conflict = "git checkout -q side && echo x > a && git commit -qam other && git rebase main"
    code, text = await run_in_repository(
        f"{conflict}; echo solved > a; git add a; git rebase --continue && git log -1 --format=%s"
    )

    assert (code, text.splitlines()[-1]) == (0, "other")


async def test_interactive_rebase_without_editor_fails_with_hint(run_in_repository):
    code, text = await run_in_repository("git rebase -i HEAD~1")
    taken, _ = await run_in_repository("GIT_SEQUENCE_EDITOR=: git rebase -i HEAD~1")
    edited, _ = await run_in_repository(
        "GIT_SEQUENCE_EDITOR='sed -i 1s/pick/drop/' git rebase -i HEAD~1"
    )
    _, log = await run_in_repository("git log --format=%s")

    assert code != 0
    assert "GIT_SEQUENCE_EDITOR=:" in text
    assert (taken, edited, log) == (0, 0, "first\n")


@pytest.mark.parametrize(
    "command",
    [
        "git config --edit", "git branch --edit-description", "git add --edit",
        'sh -c "$EDITOR settings"', 'sh -c "$VISUAL settings"', "$EDITOR settings",
    ],
)  # fmt: skip
async def test_file_opened_in_editor_stays_unchanged(run_in_repository, repository, command):
    (repository / "settings").write_text("as it was")
    (repository / "a").write_text("changed")
    before = (repository / ".git/config").read_text()

    _, text = await run_in_repository(command)

    assert command == "$EDITOR settings" or "There is no editor here" in text
    assert (repository / "settings").read_text() == "as it was"
    assert (repository / ".git/config").read_text() == before


async def test_editor_variable_split_into_words_runs_failing_editor(run_in_repository, tmp_path):
    words = shlex.split(EnvironmentPolicy(source={}).build("x")["EDITOR"])

    code, text = await run_in_repository(shlex.join([*words, "file"]))

    assert (code, "There is no editor here: file stays as it is." in text) == (1, True)


async def test_passed_variables_cannot_restore_editor_or_pager():
    names = ["EDITOR", "VISUAL", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "HGEDITOR", "MY_EDITOR",
             "PAGER", "GIT_PAGER", "BAT_PAGER", "FCEDIT", "DIRGE_NO_EDITOR"]  # fmt: skip
    user_environment = dict.fromkeys(names, HOLDING)
    policy = EnvironmentPolicy(names, source=user_environment)

    assert [name for name in names if may_be_passed(name)] == []
    assert HOLDING not in policy.build("x").values()


async def test_command_of_user_gets_own_editor():
    user_environment = {"EDITOR": HOLDING, "VISUAL": HOLDING, "PATH": "/bin"}

    built = EnvironmentPolicy(source=user_environment).build_for_person("x")

    assert (built["EDITOR"], built["VISUAL"], "GIT_EDITOR" in built) == (HOLDING, HOLDING, False)


async def test_passphrase_prompt_fails_without_waiting(run_in_repository, repository):
    await run_in_repository("ssh-keygen -q -t ed25519 -N secret -f key")

    code, text = await run_in_repository("ssh-keygen -y -f key")

    assert code != 0
    assert "passphrase" in text
