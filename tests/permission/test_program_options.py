"""A rule that allows a program does not allow what else it runs or writes."""

import pytest

from dirge_py.permission.rules import Rule, parse_claude_rules

from .conftest import Project, allow

GIT = [
    allow("execute:git *"),
    *parse_claude_rules("Bash(git *)"),
    *parse_claude_rules("Bash(git:*)"),
]


@pytest.mark.parametrize(
    "command",
    [
        "git -c core.sshCommand=x fetch", "git -ccore.sshCommand=x fetch", "git -C . -c a=b push",
        "git --exec-path=/x status", "git --config-env=a=b fetch", "git --git-dir=/x fetch",
        "git submodule foreach ls", "git bisect run x", "git filter-branch --tree-filter x",
        "git diff --output=/etc/x", "git diff --output /etc/x", "git log --outpu=/x",
        "git format-patch -o /x", "git archive -o /x HEAD", "git config alias.x '!y'",
        "git config core.pager x", "git fetch --upload-pack=x", "git push --receive-pack x",
        "git ls-remote ext::x", "git clone -c a=b x", "git clone -u x y", "git init --template=/x",
        "git grep -Ox y", "git grep --open-files-in-pager=x y", "git rebase -x y",
        "git rebase --exec=y", "git rebase --exe x", "git difftool -x y", "git diff --ext-diff",
        "git send-email x", "git hook run pre-commit",
    ],
)  # fmt: skip
@pytest.mark.parametrize("rule", GIT, ids=["own", "star", "colon"])
def test_git_allow_rule_does_not_cover_options_that_run_or_write(
    project: Project, command: str, rule: Rule
) -> None:
    assert project.run(command, rule).effect == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "git push", "git push -u origin x", "git commit -m x", "git commit -c HEAD", "git add -u",
        "git -C src push", "git checkout -b x", "git switch -c x", "git branch -c a b", "git stash",
        "git rebase main", "git merge --no-ff x", "git fetch --all", "git bisect start",
        "git submodule update --init", "git remote add o https://x", "git config --get user.name",
    ],
)  # fmt: skip
def test_git_allow_rule_covers_ordinary_git_commands(project: Project, command: str) -> None:
    assert [project.run(command, rule).effect for rule in GIT] == ["allow"] * len(GIT)


@pytest.mark.parametrize(
    ("rule", "command", "effect"),
    [
        ("git -c *", "git -c a=b push", "allow"),
        ("git -c a=* *", "git -c a=b push", "allow"),
        ("git -* *", "git -c a=b push", "ask"),
        ("git bisect *", "git bisect run x", "ask"),
        ("git bisect run *", "git bisect run x", "allow"),
        ("git diff --output=*", "git diff --output=x", "allow"),
        ("git config *", "git config a.b c", "allow"),
        ("git push *", "git push --receive-pack=x", "ask"),
        ("git push --receive-pack=x", "git push --receive-pack=x", "allow"),
        ("find *", "find . -exec rm {} +", "ask"),
        ("find *", "find . -delete", "ask"),
        ("find . -delete", "find . -delete", "allow"),
        ("tar *", "tar xf a --to-command=x", "ask"),
        ("sort *", "sort -o a b", "ask"),
        ("rg *", "rg --pre x y", "ask"),
        ("*", "git -c a=b push", "allow"),
    ],
)  # fmt: skip
def test_allow_rule_must_spell_out_options_that_run_or_write(
    project: Project, rule: str, command: str, effect: str
) -> None:
    assert project.run(command, allow(f"execute:{rule}")).effect == effect


def test_exact_grant_of_git_command_with_running_options_allows_it_again(project: Project) -> None:
    gate = project.gate()
    command = [project.execute("git -c core.pager=less rebase --exec make main")]
    (grant,) = gate.decide(command).grant
    gate.add_grant(grant)

    assert gate.decide(command).effect == "allow"
