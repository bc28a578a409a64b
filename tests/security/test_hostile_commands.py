"""Command lines and arguments of attackers, and what holds for rules and structures in general."""

import random
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from dirge_py.lib.shell_lexer import lex
from dirge_py.permission.prefix_rules import offer_prefixes
from dirge_py.permission.shell import read_structure
from tests.permission.conftest import Project, allow
from tests.security.attack_project import attack_project, random_line
from tests.security.sizes import count, size

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    made = attack_project(tmp_path_factory.mktemp("home"))
    yield made
    made.workspace.close()


@pytest.fixture(autouse=True)
def home(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(project.home))


def lines_of(name: str) -> list[str]:
    text = HERE.joinpath(name).read_text()
    # The first line says what the file is.
    return [line.encode().decode("unicode_escape") for line in text.split("\n")[1:] if line]


def offered(command: str) -> list[str]:
    return [f"execute:{one}" for one in offer_prefixes(lex(command)[0].words).patterns]


def test_no_hostile_line_runs_unasked(project: Project) -> None:
    lines = lines_of("hostile_lines.txt")

    found = [line for line in lines if project.run(line).effect == "allow"]

    count("hostile lines", len(lines), len(found))
    assert found == []


def test_no_offered_rule_allows_hostile_arguments(project: Project) -> None:
    tried, found, rules = 0, [], []
    for line in lines_of("hostile_arguments.txt"):
        if line.startswith("== "):
            rules = offered(line[3:])
            assert rules, line
            continue
        tried += 1
        found += [(one, line) for one in rules if project.run(line, allow(one)).effect == "allow"]

    count("hostile arguments", tried, len(found))
    assert found == []


def test_structure_is_allowed_only_if_each_part_alone_is(project: Project) -> None:
    choice = random.Random(5)
    known = {"HOME": str(project.home), "PWD": str(project.root), "~HOME": str(project.home)}
    most, tried, found = size(1_500, 100_000), 0, []
    for _ in range(most):
        line = random_line(choice)
        parts = read_structure(line, known, str(project.root))
        if not parts or "cd " in line or project.run(line).effect != "allow":
            continue
        for part in parts:
            tried += 1
            words = ["[" if word == "[" else shlex.quote(word) for word in part.argv]
            alone = project.run(" ".join(words))
            # Tests with other words may be parsed in two ways; then they can't be compared.
            if alone.effect != "allow" and "parsers" not in alone.reason:
                found.append((line, part.argv))

    count("parts of structures", tried, len(found), "would ask alone")
    assert found == []


PROGRAMS = [
    "pytest", "make", "npm run", "npx", "uv run", "python", "python -m", "node", "git", "git push",
    "ruff check", "sed -i", "mv", "cp", "mkdir", "touch", "jq", "foo", "./x.sh", "timeout 5",
    "sort", "docker compose", "cd src && make", "cd src && foo", "gh pr", "go test", "cargo",
]  # fmt: skip
ARGUMENTS = [
    "-q", "test", "build", "x.py", "a", "b", "src", ".", "..", "/etc/hosts", "../out", ".env",
    "slink", "link/x", "-o", "-oP", "--output=P", "--config=.env", "x=/etc/x", "*", "src/*.py",
    "'a b'", "'*'", "--", "-c", "-e", "-p", "evil", "@x", "$(id)", "> P", "a:b", "https://a.b/c",
]  # fmt: skip


def test_offered_rules_cover_what_they_were_offered_for(project: Project) -> None:
    choice = random.Random(6)
    most, tried, found = size(800, 50_000), 0, []
    for _ in range(most):
        words = (choice.choice(PROGRAMS), *choice.choices(ARGUMENTS, k=choice.randint(0, 3)))
        command = " ".join(words)
        decision = project.run(command)
        for rules in filter(None, (decision.grant, decision.wider, decision.widest)):
            tried += 1
            if project.run(command, *map(allow, rules)).effect != "allow":
                found.append((command, rules))
        if decision.effect == "ask" and not (decision.grant or decision.wider):
            assert decision.once_only, command

    count("offered rules", tried, len(found), "don't cover their command")
    assert found == []


def test_wider_rules_cover_no_secret_and_nothing_outside(project: Project) -> None:
    hidden = (".env", "slink", "link/x", "../out", "/etc/hosts", "--x=.env", "-f.env", "a:/etc/x")
    choice = random.Random(7)
    most, tried, found = size(400, 20_000), 0, []
    for _ in range(most):
        words = (choice.choice(PROGRAMS), *choice.choices(ARGUMENTS[:8], k=choice.randint(0, 2)))
        decision = project.run(" ".join(words))
        for rule in (*decision.wider, *decision.widest):
            lead = rule.removeprefix("execute:").removesuffix("*")
            line = f"{lead} {choice.choice(hidden)}"
            tried += 1
            # The files that these programs change are claims of their own.
            if lead.startswith(("touch", "mkdir", "mv", "cp")) or not rule.endswith("*"):
                continue
            # `sort a:/etc/x` reads a file below the folder `a:`, which needs no rule.
            if project.run(line).effect != project.run(line, allow(rule)).effect == "allow":
                found.append((rule, line))

    count("secrets behind a star", tried, len(found))
    assert found == []
