import json
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dirge_py.permission.decision import explain
from dirge_py.permission.engine import suggest_flags
from dirge_py.permission.rules import Effect, Mode, Rule
from dirge_py.types.tools import Claim, Operation
from tests.security.sizes import size

from .conftest import Project, allow, ask, deny

MODES: tuple[Mode, ...] = ("standard", "accept", "restrictive", "plan", "yolo")
TABLE = [
    ("read", "README.md", "allow allow allow allow allow"),
    ("read", "/etc/hosts", "ask ask ask ask allow"),
    ("read", ".env", "ask ask ask ask allow"),
    ("edit", "src/a.py", "allow allow ask deny allow"),
    ("edit", ".git/config", "ask ask ask deny allow"),
    ("edit", ".github/workflows/ci.yml", "ask ask ask deny allow"),
    ("edit", "/etc/hosts", "ask ask ask deny allow"),
    ("execute", "git status", "allow allow allow allow allow"),
    ("execute", "make test", "ask ask ask deny allow"),
    ("execute", "if true; then ls; fi", "allow allow allow allow allow"),
    ("execute", "if true; then make; fi", "ask ask ask deny allow"),
    ("execute", "rm -rf /", "deny deny deny deny deny"),
    ("execute", "sudo dd if=x of=/dev/sda", "deny deny deny deny deny"),
    ("network", "example.com", "ask ask ask deny allow"),
    ("mcp", "server.tool", "ask ask ask deny allow"),
    ("plugin", "thing", "ask ask ask deny allow"),
    ("agent", "reviewer", "ask ask ask deny allow"),
    ("memory", "add", "ask allow ask deny allow"),
    ("skill", "create", "ask allow ask deny allow"),
    ("other", "thing", "ask allow ask deny allow"),
    ("memory", "view notes", "allow allow allow allow allow"),
    ("skill", "load:x", "allow allow allow allow allow"),
    ("meta", "todo", "allow allow allow allow allow"),
    ("read", "STATE/trust.json", "deny deny deny deny deny"),
    ("edit", "STATE/trust.json", "deny deny deny deny deny"),
    ("execute", "cat STATE/trust.json", "deny deny deny deny deny"),
    ("execute", "python -c 'open(1)' STATE/trust.json", "deny deny deny deny deny"),
    ("execute", "x=$(cat ~/.local/state/dirge/trust.json)", "deny deny deny deny deny"),
    ("read", "STATE/sessions/p/1/output/call.txt", "allow allow allow allow allow"),
]


def claim(project: Project, op: Operation, resource: str) -> Claim:
    resource = resource.replace("STATE", str(project.state))
    return project.execute(resource) if op == "execute" else project.claim(op, resource)


@pytest.mark.parametrize(("op", "resource", "effects"), TABLE)
def test_default_effect_of_claim_in_each_mode_matches_table(
    project: Project, op: Operation, resource: str, effects: str
) -> None:
    given = [project.gate(mode=mode).decide([claim(project, op, resource)]) for mode in MODES]

    assert [decision.effect for decision in given] == effects.split()


@pytest.mark.parametrize("mode", MODES)
def test_deny_rule_beats_allow_rule_in_any_order(project: Project, mode: Mode) -> None:
    for rules in (
        (deny("execute:git log *"), allow("execute:*")),
        (allow("execute:*"), deny("execute:git log *")),
    ):
        decision = project.run("git log -1", *rules, mode=mode)
        assert (decision.effect, decision.policy) == ("deny", "deny-rule")


def test_last_matching_allow_or_ask_rule_wins(project: Project) -> None:
    assert project.run("make x", ask("execute:make *"), allow("execute:make x")).effect == "allow"
    assert project.run("make x", allow("execute:make x"), ask("execute:make *")).effect == "ask"


def test_ask_rule_beats_built_in_allow(project: Project) -> None:
    decision = project.run("git log", ask("execute:git log *"))

    assert (decision.effect, decision.policy) == ("ask", "ask-rule")


def test_grant_beats_ask_rule(project: Project) -> None:
    gate = project.gate(ask("execute:make *"))
    gate.add_grant("execute:make test")

    assert gate.decide([project.execute("make test")]).policy == "grant"


def test_allow_rules_and_grants_do_not_allow_protected_names(project: Project) -> None:
    gate = project.gate(allow("edit:**"), allow("edit:/**"))
    gate.add_grant("edit:/**")

    decision = gate.decide([project.claim("edit", ".git/hooks/pre-commit")])

    assert (decision.effect, decision.policy, decision.grant) == ("ask", "protected", ())


def test_grant_does_not_allow_edits_in_plan_mode(project: Project) -> None:
    gate = project.gate(allow("edit:**"), mode="plan")
    gate.add_grant("edit:src/a.py")

    decision = gate.decide([project.claim("edit", "src/a.py")])

    assert (decision.effect, decision.policy) == ("deny", "mode")


@pytest.mark.parametrize(
    "command",
    [
        "echo x > a",
        "cat > a <<END\nx\nEND",
        "tee a <<< x",
        "ls; cp a b",
        "cat a | tee b",
        "sed -i s/a/b/ a",
        "echo $(touch a)",
        "bash -c 'touch a'",
        "git commit -am x",
        "python -c 'open(1)'",
    ],
)
def test_plan_mode_denies_shell_commands_that_write(project: Project, command: str) -> None:
    everything = [allow("execute:*"), allow("edit:**")]
    assert project.run(command, *everything, mode="plan").effect == "deny"


def test_strictest_effect_of_several_claims_wins(project: Project) -> None:
    claims = [
        project.claim("read", "README.md"),
        project.claim("edit", "../x"),
        project.claim("edit", "a"),
    ]

    decision = project.gate().decide(claims)

    assert [one.effect for one in decision.claims] == ["allow", "ask", "allow"]
    assert (decision.effect, decision.reason) == ("ask", decision.claims[1].reason)


def test_allow_rule_must_cover_each_part_of_command(project: Project) -> None:
    rule = allow("execute:make *")

    assert project.run("make && make x", rule).effect == "allow"
    assert project.run("make && cargo build", rule).effect == "ask"
    assert project.run("make > log", rule).effect == "ask"
    assert project.run("make $(id)", rule).effect == "ask"
    assert project.run("export PATH=.; make", allow("execute:export *"), rule).effect == "ask"


def test_allow_rule_for_program_does_not_allow_outside_or_protected_paths(project: Project) -> None:
    assert project.run("touch src/new", allow("execute:touch *")).effect == "allow"
    assert project.run("touch /tmp/x", allow("execute:touch *")).effect == "ask"
    assert project.run("touch .git/x", allow("execute:touch *")).effect == "ask"
    assert project.run("cat /etc/hosts", allow("execute:cat *")).effect == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "git push", "git push -f", "  git   push", "git -C . push", "git -c a=b push x",
        "\\git push",
        "g'it' pu\"sh\"", "/usr/bin/git push", "sudo git push", "sudo -u root git push",
        "env -i A=1 git push", "nohup git push", "timeout 5 git push", "xargs git push",
        "bash -c 'git push'", "sh -xc \"cd . && git push\"", "eval git push", "eval 'git push'",
        "A=1 git push", "if true; then git push; fi", "(git push)", "{ git push; }",
        "echo $(git push)", "echo `git push`", "echo \"$(git push)\"", "cat <(git push)",
        "ls && git push", "ls\ngit push", "f() { git push; }; f", "git push &", "! git push",
        "find . -exec git push ;", "sudo env nice -n 3 git push", "git \\\npush", "$'git' push",
        "cat <<EOF\n$(git push)\nEOF", "echo 'unclosed; git push", "{git,push}", "git${IFS}push",
        "env -S'git push'", "env --split-string='git push'",
        "bash -c \"bash -c 'git push'\"", "case x in x) git push;; esac",
    ],
)  # fmt: skip
@pytest.mark.parametrize("mode", ["standard", "yolo"])
def test_deny_rule_finds_command_inside_wrappers_and_compounds(
    project: Project, command: str, mode: Mode
) -> None:
    decision = project.run(command, deny("execute:git push *"), allow("execute:*"), mode=mode)

    assert (decision.effect, decision.policy) == ("deny", "deny-rule")


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "ls # git push",
        "echo git push",
        "git log --grep='git push'",
        "grep 'git push' f",
    ],
)
def test_deny_rule_does_not_apply_to_other_commands(project: Project, command: str) -> None:
    assert project.run(command, deny("execute:git push *")).effect == "allow"


@pytest.mark.parametrize(
    "command", ["rm notes.txt", "cp a notes.txt", "echo $X > notes.txt", "X=1 tee notes.txt"]
)
def test_edit_deny_rule_applies_to_commands(project: Project, command: str) -> None:
    assert project.run(command, deny("edit:notes.txt"), mode="yolo").effect == "deny"


@pytest.mark.parametrize(
    "command",
    ["cat notes.txt", "cat *.txt", "python x notes.txt", "X=1 cat < notes.txt; a notes.txt"],
)
def test_read_deny_rule_applies_to_commands(project: Project, command: str) -> None:
    assert project.run(command, deny("read:notes.txt"), mode="yolo").effect == "deny"


def test_decision_json_has_exactly_the_documented_keys(project: Project) -> None:
    decision = project.run("cat /etc/hosts").as_json()

    assert list(decision) == ["effect", "policy", "reason", "claims", "trace"]
    assert [list(one) for one in decision["claims"]] == [
        ["op", "resource", "effect", "policy", "reason"]
    ] * 2
    assert {tuple(line) for line in decision["trace"]} == {("claim", "policy", "effect", "reason")}
    assert json.loads(json.dumps(decision)) == decision


def test_decision_trace_lists_every_policy_once_per_claim(project: Project) -> None:
    trace = project.run("cat README.md").trace

    assert [line.policy for line in trace] == [
        "hard-deny", "deny-rule", "protected", "grant", "allow-rule", "ask-rule", "builtin", "mode",
        "default",
    ] * 2  # fmt: skip


def test_explanation_shows_verdict_first_and_every_vote_that_applies(project: Project) -> None:
    rule = deny("execute:git push *")

    text = explain(project.run("git push", rule), "bash", "git push")

    assert text.splitlines()[:2] == [
        "deny: the rule `execute:git push *` denies it [deny-rule]",
        "bash git push",
    ]
    assert "  default    ask" in text
    assert "n/a" not in text


@pytest.mark.parametrize(
    ("command", "grant"),
    [
        ("pytest -q tests", ("execute:pytest -q tests",)),
        ("make && npm test", ("execute:make", "execute:npm test")),
        ("ls | make 'a*b'", ("execute:make 'a*b'",)),
        ("make $(id)", ()),
        ("make > log", ()),
        ("make *", ()),
        ("python -c 'x'", ()),
        ("bash -c make", ()),
        ("sudo bash -c make", ()),
        ("node --eval x", ()),
        ("touch /tmp/x", ()),
        ("cat .env", ()),
        ("cp a .git/x", ()),
        ("cd src && make", ("execute:make",)),
        ("cd src && ./x.sh", ()),
        ("cd src && python a.py", ()),
        ("cd /tmp && make", ()),
        ("cd .. ; make", ()),
        ("python /tmp/x.py", ("execute:python /tmp/x.py",)),
        ("ls", ()),
    ],
)
def test_offered_grant_is_exact_command_or_none(
    project: Project, command: str, grant: tuple[str, ...]
) -> None:
    assert project.run(command).grant == grant


@pytest.mark.parametrize(
    ("command", "wider"),
    [
        ("git push origin main", ("execute:git push *",)),
        ("npm run build -- x", ("execute:npm run build *",)),
        ("gh pr create -t x", ("execute:gh pr create *",)),
        ("make && git push", ("execute:make", "execute:git push *")),
        ("make all", ("execute:make all *",)),
        ("python x.py", ("execute:python x.py *",)),
        ("npm exec x", ()),
        ("npm run", ()),
        ("docker run x", ()),
        ("git -C src push", ()),
        ("git config a.b c", ()),
        ("git ./x", ()),
        ("sudo git push", ()),
        ("git push $(id)", ()),
        ("cd src && git push origin main", ("execute:git push *",)),
        ("cd src && ./x.sh a", ()),
        ("cd /tmp && git push", ()),
        ("git push && cat .env", ()),
        ("python /tmp/x.py a", ()),
        ("python x.py /tmp/a", ()),
        ("jq . .env", ()),
    ],
)
def test_offered_wider_rule_covers_one_subcommand_or_none(
    project: Project, command: str, wider: tuple[str, ...]
) -> None:
    decision = project.run(command)

    assert decision.wider == wider
    assert not wider or project.run(command, *map(allow, wider)).effect == "allow"


def test_offered_wider_rule_for_edit_covers_its_folder(project: Project) -> None:
    gate = project.gate(mode="restrictive")
    (rule,) = gate.decide([project.claim("edit", "src/a.py")]).wider
    gate.add_grant(rule)

    assert rule == f"edit:{project.root}/src/**"
    assert gate.decide([project.claim("edit", "src/new.py")]).effect == "allow"
    assert gate.decide([project.claim("edit", "README.md")]).effect == "ask"
    assert gate.decide([project.claim("edit", "src/.git/x")]).policy == "protected"
    assert gate.decide([project.claim("network", "example.com")]).wider == ()


def test_grant_with_quoted_star_does_not_cover_unquoted_star(project: Project) -> None:
    gate = project.gate()
    gate.add_grant("execute:make 'a*'")

    assert gate.decide([project.execute("make 'a*'")]).effect == "allow"
    assert gate.decide([project.execute("make a*")]).effect == "ask"
    assert gate.decide([project.execute("make ab")]).effect == "ask"


def test_grant_covers_the_command_in_all_folders_of_the_workspace(project: Project) -> None:
    gate = project.gate()
    gate.add_grant("execute:make")
    gate.add_grant("execute:./x.sh")
    asked = ["cd .. && make", "cd /tmp; make", "cd src && ./x.sh", "cd src | make", "cd - && make"]

    assert gate.decide([project.execute("cd src && make")]).effect == "allow"
    assert gate.decide([project.execute("./x.sh")]).effect == "allow"
    assert {gate.decide([project.execute(text)]).effect for text in asked} == {"ask"}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "command",
    ["make test", "touch /tmp/x", "cat /etc/hosts | make", "it's", "cat .env", "make 'a b'"],
)
def test_suggested_allow_flags_allow_the_command(
    project: Project, command: str, mode: Mode
) -> None:
    decision = project.run(command, mode=mode)
    again = project.run(command, *(allow(rule) for rule in decision.wanted), mode=mode)

    assert suggest_flags(decision).count("--allow ") == len(decision.wanted)
    assert again.effect == "allow" or not decision.wanted


def test_only_read_only_commands_are_hardened(project: Project) -> None:
    assert project.run("ls -la | head -5").needs_hardening
    assert not project.run("make", allow("execute:make")).needs_hardening
    assert not project.run("make", mode="yolo").needs_hardening


def test_build_commands_are_allowed_inside_sandbox(project: Project) -> None:
    gate = project.gate(is_sandboxed=True)

    assert gate.decide([project.execute("pytest -q && cargo test")]).effect == "allow"
    assert gate.decide([project.execute("curl x")]).effect == "ask"


rules = st.builds(
    Rule,
    st.sampled_from(["execute", "read", "edit", "network", "*"]),
    st.sampled_from(
        [
            "*",
            "git *",
            "make",
            "make *",
            "**",
            "src/**",
            "/etc/**",
            "README.md",
            "example.com",
            "ls *",
        ]
    ),
    st.sampled_from(["allow", "ask", "deny"]),
)
actions = st.sampled_from(
    [
        ("execute", "git status"), ("execute", "make && ls"), ("execute", "x=$(make)"),
        ("read", "README.md"), ("read", "/etc/hosts"), ("edit", "src/a.py"),
        ("network", "example.com"),
        ("execute", "cat README.md | make"), ("execute", "rm -rf /"),
    ]
)  # fmt: skip
RANK: dict[Effect, int] = {"allow": 0, "ask": 1, "deny": 2}


@settings(
    max_examples=size(66, 200),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.lists(rules, max_size=5), rules, st.integers(0, 5), st.lists(rules, max_size=2), actions,
    st.sampled_from(MODES),
)  # fmt: skip
def test_adding_deny_rule_never_loosens_effect(
    project: Project,
    before: list[Rule],
    added: Rule,
    at: int,
    grants: list[Rule],
    action: tuple[Operation, str],
    mode: Mode,
) -> None:
    added = Rule(added.op, added.pattern, "deny")
    effects = []
    for given_rules in (before, [*before[:at], added, *before[at:]]):
        gate = project.gate(*given_rules, mode=mode)
        for grant in grants:
            gate.add_grant(str(grant))
        effects.append(gate.decide([claim(project, *action)]).effect)

    assert RANK[effects[0]] <= RANK[effects[1]]


@settings(
    max_examples=size(66, 200),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.lists(rules, max_size=5), st.lists(rules, max_size=2), st.sampled_from(MODES),
    st.sampled_from(
        ["README.md", "src/a.py", ".env", ".git/config", "missing", "src", "../../etc/hosts",
         "/etc/hosts", "/dev/null", "../.local/state/dirge/a", "../.config/dirge/keys/k",
         "../.config/dirge/config.toml", "server.pem"]
    ),
)  # fmt: skip
def test_search_skips_a_file_exactly_if_reading_it_would_not_be_allowed(
    project: Project, given_rules: list[Rule], grants: list[Rule], mode: Mode, path: str
) -> None:
    gate = project.gate(*given_rules, mode=mode)
    for grant in grants:
        gate.add_grant(str(grant))
    real = os.path.realpath(project.root / path)
    is_allowed = gate.decide([Claim("read", real)]).effect == "allow"
    assert gate.withholds(real) is not is_allowed
