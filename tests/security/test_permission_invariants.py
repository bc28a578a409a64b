"""Invariants of rules, commands and questions, on random ones."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dirge_py.config.load import load
from dirge_py.files.workspace import Workspace
from dirge_py.lib.shell_lexer import NotPlain, screen
from dirge_py.permission.engine import PermissionEngine
from dirge_py.permission.rules import Effect, Mode, PolicySet, Rule, parse_rule
from dirge_py.permission.settings import open_engine
from dirge_py.processes.sandbox.profile import LaunchSpec
from dirge_py.sdk.explain import Explainer
from dirge_py.sdk.options import BuildOptions
from dirge_py.types.errors import ConfigError
from dirge_py.types.tools import Operation
from tests.permission.conftest import Project
from tests.security.sizes import count, size
from tests.support.authorizer_driver import NO, YES, AuthorizerDriver

MODES: tuple[Mode, ...] = ("standard", "accept", "restrictive", "plan", "yolo")
RANK: dict[Effect, int] = {"allow": 0, "ask": 1, "deny": 2}
ALGEBRA = size(80, 100_000)
SHAPED = size(40, 10_000)


def many(most: int) -> settings:
    return settings(
        max_examples=most,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    made = Project(tmp_path_factory.mktemp("home").resolve())
    yield made
    made.workspace.close()


def rules_with(*effects: Effect) -> st.SearchStrategy[Rule]:
    return st.builds(
        Rule,
        st.sampled_from(["execute", "read", "edit", "network", "*"]),
        st.sampled_from(
            ["*", "**", "git *", "make", "make *", "src/**", "/etc/**", "README.md", "ls *",
             "example.com", "notes.*", "rg *", "/**"]
        ),
        st.sampled_from(effects),
        st.just("somebody"),
    )  # fmt: skip


any_rules = st.lists(rules_with("allow", "ask", "deny"), max_size=5)
grants = st.lists(rules_with("allow"), max_size=2)
modes = st.sampled_from(MODES)
actions = st.sampled_from(
    [
        ("execute", "git status"), ("execute", "make && ls"), ("execute", "x=$(make)"),
        ("execute", "rg x"), ("execute", "cat README.md | make"), ("execute", "rm -rf /"),
        ("execute", "rm notes.txt"), ("execute", "cd src && make"), ("execute", "echo x > .git/x"),
        ("read", "README.md"), ("read", "/etc/hosts"), ("read", ".env"), ("edit", "src/a.py"),
        ("edit", ".git/config"), ("edit", "/etc/hosts"), ("network", "example.com"),
    ]
)  # fmt: skip


def effect_of(
    project: Project,
    action: tuple[Operation, str],
    *,
    rules: list[Rule],
    granted: list[Rule],
    mode: Mode,
    brought: list[Rule] | None = None,
) -> Effect:
    policy = PolicySet(rules=tuple(rules), project_rules=tuple(brought or ()), mode=mode)
    gate = PermissionEngine(
        project.workspace, policy, state_dirs=[project.state], home=project.home
    )
    for grant in granted:
        gate.add_grant(str(grant))
    op, resource = action
    claim = project.execute(resource) if op == "execute" else project.claim(op, resource)
    return gate.decide([claim]).effect


def test_adding_a_deny_rule_never_allows_more(project: Project) -> None:
    @many(ALGEBRA)
    @given(any_rules, rules_with("deny"), st.integers(0, 5), grants, modes, actions)
    def check(rules: Any, added: Rule, at: int, granted: Any, mode: Mode, action: Any) -> None:
        before = effect_of(project, action, rules=rules, granted=granted, mode=mode)
        more = [*rules[:at], added, *rules[at:]]
        after = effect_of(project, action, rules=more, granted=granted, mode=mode)
        assert RANK[before] <= RANK[after]

    check()
    count("policy: a deny more", ALGEBRA, 0, "loosened")


def test_project_rules_never_allow_more(project: Project) -> None:
    @many(ALGEBRA)
    @given(any_rules, st.lists(rules_with("ask", "deny"), max_size=4), grants, modes, actions)
    def check(rules: Any, brought: Any, granted: Any, mode: Mode, action: Any) -> None:
        before = effect_of(project, action, rules=rules, granted=granted, mode=mode)
        after = effect_of(project, action, rules=rules, granted=granted, mode=mode, brought=brought)
        assert RANK[before] <= RANK[after]

    check()
    count("policy: a project's rules", ALGEBRA, 0, "loosened")


def test_grants_and_allow_rules_never_override_a_deny_rule(project: Project) -> None:
    @many(ALGEBRA)
    @given(any_rules, grants, grants, modes, actions)
    def check(rules: Any, granted: Any, more: Any, mode: Mode, action: Any) -> None:
        before = effect_of(project, action, rules=rules, granted=granted, mode=mode)
        after = effect_of(project, action, rules=[*rules, *more], granted=granted + more, mode=mode)
        assert before != "deny" or after == "deny"

    check()
    count("policy: grants against denies", ALGEBRA, 0, "beaten")


def test_ask_rule_of_a_project_overrides_allow_rules(project: Project) -> None:
    mine = [parse_rule("execute:make *", "allow")]
    theirs = [parse_rule("execute:make *", "ask", source="project")]
    gate = PermissionEngine(
        project.workspace, PolicySet(rules=tuple(mine), project_rules=tuple(theirs))
    )

    decision = gate.decide([project.execute("make x")])

    assert (decision.effect, decision.policy, decision.wanted) == ("ask", "ask-rule", ())


def test_a_project_that_wants_to_allow_something_is_an_error(
    tmp_path: Path, project: Project
) -> None:
    environment = {"HOME": str(tmp_path), "DIRGE_CONFIG_DIR": str(tmp_path / "none")}
    config = load(environment=environment)
    workspace = Workspace([project.root], project.root)

    with pytest.raises(ConfigError, match="allows something"):
        rules = (parse_rule("execute:*", "allow", source=".dirge/config.toml"),)
        open_engine(config, BuildOptions(project=SimpleNamespace(rules=rules)), workspace, None)
    workspace.close()


LOOKS = ["ls -la", "cat README.md", "git status", "echo 'a b'", "grep -n x f", "pwd", "test -f x"]
ACTS = ["curl x", "make", "rm f", "python x", "npm test", "git push", "./x", "sudo ls", "eval ls"]
looks = st.sampled_from(LOOKS)
joints = st.sampled_from([" && ", "; ", " | ", "\n", " || ", " ;", "&&"])
SHAPES = [
    "{}", "({})", "{{ {}; }}", "if true; then {}; fi", "while true; do {}; done > log", "! {}",
    "echo $({})", "echo `{}`", "f() {{ {}; }}; f", "for i in a; do {}; done", "{} &", "time {}",
    "case a in a) {};; esac", "if {}; then ls; fi", "echo \"$({})\"", "cat <({})", "[ $({}) ]",
]  # fmt: skip


@st.composite
def chains(draw: st.DrawFn, *must: str) -> str:
    """Read-only commands joined, with one of `must` among them if given."""
    commands = draw(st.lists(looks, min_size=0 if must else 1, max_size=3))
    if must:
        commands.insert(draw(st.integers(0, len(commands))), draw(st.sampled_from(must)))
    text = commands[0]
    for command in commands[1:]:
        text += draw(joints) + command
    return text


def test_bp1_an_unlisted_program_anywhere_is_never_allowed(project: Project) -> None:
    @many(SHAPED)
    @given(st.lists(st.sampled_from(SHAPES), max_size=3), chains(*ACTS))
    def check(shapes: list[str], text: str) -> None:
        for shape in shapes:
            text = shape.format(text)
        assert project.run(text).effect != "allow"

    check()


def test_bp2_what_tree_sitter_cannot_parse_is_never_allowed(project: Project) -> None:
    import tree_sitter
    import tree_sitter_bash

    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
    pieces = [*LOOKS, " ", " ", ";", "&&", "|", "\n", "(", ")", "'", '"', "$", "{", "}", "if", "fi",
              "<", ">", "<<E", "`", "\\", "[", "]", "*", "done", "case", "&", "#"]  # fmt: skip

    @many(SHAPED)
    @given(st.lists(st.sampled_from(pieces), max_size=8))
    def check(drawn: list[str]) -> None:
        text = "".join(drawn)
        try:
            screen(text)
        except NotPlain:
            return
        if parser.parse(text.encode()).root_node.has_error:
            assert project.run(text).effect != "allow"

    check()


def test_bp3_rm_of_the_root_is_denied_after_any_prefix(project: Project) -> None:
    tails = st.sampled_from([" && rm -rf /", "; rm -rf /", " | rm -rf /", "\nrm -rf /"])

    @many(SHAPED)
    @given(st.sampled_from(SHAPES), chains(), tails)
    def check(shape: str, text: str, tail: str) -> None:
        assert project.run(shape.format(text) + tail).effect == "deny"

    check()


def test_bp4_redirecting_out_of_the_workspace_asks(project: Project) -> None:
    @many(SHAPED)
    @given(chains(), st.sampled_from([" > /etc/x", " >> ~/x", ">/etc/x", " 2>/etc/x", " &> ~/x"]))
    def check(text: str, tail: str) -> None:
        if project.run(text).effect == "allow":
            assert project.run(text + tail).effect == "ask"

    check()


def test_bp5_wrapping_a_command_never_allows_more(project: Project) -> None:
    tails = st.sampled_from(["", " > out.txt", " 2>&1", " >> src/log"])

    @many(SHAPED)
    @given(st.sampled_from(SHAPES[1:]), chains(*ACTS, "rm -rf /"), tails)
    def check(shape: str, text: str, tail: str) -> None:
        before = project.run(text).effect
        assert RANK[project.run(shape.format(text) + tail).effect] >= min(RANK[before], 1)

    check()


def test_bp7_whitespace_does_not_change_the_decision(project: Project) -> None:
    blank = st.text(" \t", min_size=1, max_size=4)

    @many(SHAPED)
    @given(st.lists(looks | st.sampled_from(ACTS), min_size=1, max_size=3), blank, blank, blank)
    def check(commands: list[str], before: str, between: str, after: str) -> None:
        plain = " && ".join(commands)
        padded = before + f"{between}&&{between}".join(commands) + after
        assert project.run(padded).effect == project.run(plain).effect

    check()


commands = (
    chains(*ACTS)
    | chains()
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)
    | st.builds(
        lambda bad, pad: f"make {bad}{pad}x",
        st.sampled_from(
            ["\u202e", "\u2066", "\u200b", "\r", "\x1b[2K", "\x7f", "\U000e0041", "\n"]
        ),
        st.sampled_from([" " * 300, "\n" * 90, "x" * 10_000, "\t", ""]),
    )
)


async def test_bp6_why_shows_the_decision_that_is_enforced(project: Project) -> None:
    rules = [parse_rule("execute:make *", "allow"), parse_rule("execute:rm *", "deny"),
             parse_rule("edit:src/**", "deny"), parse_rule("read:notes.txt", "deny")]  # fmt: skip
    driver = AuthorizerDriver(project, *rules, loop_guard=0)
    explainer = Explainer(
        gate=driver.gate, toolbox=driver.toolbox, workspace=project.workspace, cwd=str(project.root)
    )
    drawn: list[tuple[str, Mode]] = []

    @many(SHAPED)
    @given(commands, modes)
    def collect(command: str, mode: Mode) -> None:
        drawn.append((command, mode))

    collect()
    for command, mode in drawn:
        driver.gate.mode = mode
        decision = explainer.decide("bash", {"command": command})
        before = len(driver.user.asked)
        allowed = await driver.allows(driver.bash(command))
        asked = len(driver.user.asked) - before
        enforced = "allow" if allowed else "ask" if asked else "deny"
        *_, past = driver.gate.history
        assert decision.effect == enforced, command
        assert past.policy in (decision.policy, "answer")
        assert len(past.claims) == len(decision.claims)


async def test_command_shown_in_a_question_is_the_one_that_runs(project: Project) -> None:
    most = size(25, 10_000)
    run: list[list[str]] = []

    def launcher(arguments: list[str], spec: LaunchSpec) -> list[str]:
        run.append(arguments)
        return ["/bin/true"]

    driver = AuthorizerDriver(project, launcher=launcher, loop_guard=0)
    driver.user.answer = lambda request: YES
    drawn: list[str] = []
    wrong = 0

    @many(most)
    @given(commands)
    def collect(command: str) -> None:
        drawn.append(command)

    collect()
    for command in drawn:
        run.clear()
        driver.user.asked.clear()
        await driver.run(driver.bash(command))
        for request in driver.user.questions:
            assert request.preview is not None
            shown = {claim.resource for claim in request.claims if claim.op == "execute"}
            is_whole = request.preview.text == command and all(part in command for part in shown)
            wrong += not (is_whole and [each[-1] for each in run] == [command])

    count("prompt honesty", most, wrong, "differ")
    assert wrong == 0


CRASHERS = """
import sys
from dirge_py.types.tools import Claim, ShellCommand
from dirge_py.files.workspace import Workspace
from dirge_py.permission.engine import PermissionEngine
from dirge_py.permission.rules import PolicySet
from dirge_py.lib.shell_lexer import NotPlain, lex

folder, step = sys.argv[1], int(sys.argv[2])
gate = PermissionEngine(Workspace([folder], folder), PolicySet(), home=folder)
tried = wrong = 0
for point in range(0x10000, 0x110000, step):
    text = "{" + chr(point)
    try:
        lex(text)
        wrong += 1
    except NotPlain:
        pass
    tried += 1
    if point % (step * 64) == 0x10000 % (step * 64):
        for shape in (text, "ls " + text, text * 9, "echo '" + text):
            wrong += gate.decide([Claim("execute", ShellCommand(shape, folder))]).effect != "ask"
            tried += 1
print(tried, wrong)
"""


def test_no_character_crashes_the_shell_parser(tmp_path: Path) -> None:
    step = size(1009, 1)

    done = subprocess.run(
        [sys.executable, "-c", CRASHERS, str(tmp_path), str(step)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    tried, wrong = map(int, done.stdout.split())
    count("parser crash corpus", tried, wrong, "not asked about")
    assert (tried > 1000, wrong) == (True, 0)


async def test_refusing_a_batch_allows_none_of_its_calls(project: Project) -> None:
    driver = AuthorizerDriver(project)
    driver.user.answer = lambda request: NO
    calls = [driver.bash(command) for command in ("make", "npm test", "rm f", "make x")]
    info = driver.info(calls)

    decided = await asyncio.gather(*(driver.allows(call, info) for call in calls[:1]))

    assert decided == [False]
    assert [await driver.allows(call, info) for call in calls[1:]] == [False] * 3
    assert len(driver.user.asked) == 1
