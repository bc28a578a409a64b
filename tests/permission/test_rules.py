import pytest

from dirge_py.permission.decide import exact_rule
from dirge_py.permission.facts import PathFact, ResolvedPath
from dirge_py.permission.rules import Anchors, make_rule, parse_claude_rules, parse_rule, permits
from dirge_py.types.errors import ConfigError, UsageError

from .conftest import Project, allow, deny


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("git status", "no `:`"),
        ("exec:git", "no operation `exec`"),
        ("execute:", "no pattern"),
        ("execute:git 'x", "not closed"),
        ("execute:git add && git commit", "`&&` joins commands"),
        ("execute:x\\", "last backslash"),
        ("edit:../x", "`..`"),
    ],
)
def test_invalid_rule_error_names_source_and_problem(text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_rule(text, "allow", source="--allow")

    assert says in caught.value.message
    assert caught.value.message.startswith("--allow: ")


def test_misspelled_operation_suggests_nearest_operation() -> None:
    with pytest.raises(ConfigError) as caught:
        make_rule("exceute", "x", "deny", error=ConfigError)

    assert caught.value.hint == "Did you mean `execute`?"


@pytest.mark.parametrize(
    ("pattern", "command", "matches"),
    [
        ("git *", "git push origin", True),
        ("git *", "git", True),
        ("git *", "gitx push", False),
        ("git*", "gitx", True),
        ("git*", "gitx push", False),
        ("make test", "make test", True),
        ("make test", "make test x", False),
        ("make * --fast", "make a b --fast", True),
        ("make * --fast", "make --fast c", False),
        ("npm run t?st", "npm run test", True),
        ("npm 'run *'", "npm 'run *'", True),
        ("npm 'run *'", "npm 'run x'", False),
        ("npm run\\ x", "npm 'run x'", True),
        ("*", "anything at all", True),
        ("git push *", "'git push'", False),
    ],
)
def test_command_pattern_is_matched_word_by_word(
    project: Project, pattern: str, command: str, matches: bool
) -> None:
    decision = project.run(command, allow(f"execute:{pattern}"))

    assert (decision.effect == "allow") is matches


@pytest.mark.parametrize(
    ("pattern", "command", "matches"),
    [
        ("git push*", "git push", True),
        ("git push*", "git push --force origin", True),
        ("git push*", "git pull", False),
        ("git push", "git push --force", False),
        ("git push\\*", "git push --force", False),
    ],
)
def test_star_at_end_of_deny_rule_also_matches_more_words(
    project: Project, pattern: str, command: str, matches: bool
) -> None:
    decision = project.run(command, deny(f"execute:{pattern}"))

    assert (decision.effect == "deny") is matches


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("src/**", "src/a/b", True),
        ("src/**", "src", True),
        ("src/**", "srcx", False),
        ("src/*", "src/a", True),
        ("src/*", "src/a/b", False),
        ("./src/?.py", "src/a.py", True),
        ("**/x", "a/b/x", True),
        ("**/x", "x", True),
        ("a/**/b", "a/b", True),
        ("*.md", "README.md", True),
        ("*.md", "src/README.md", False),
        ("**", "any/thing", True),
        ("**", "/etc/hosts", True),
        ("/etc/**", "/etc/hosts", True),
        ("~/notes/**", "HOME/notes/x", True),
        ("$HOME/notes", "HOME/notes", True),
        ("src/\\*", "src/*", True),
        ("src/\\*", "src/a", False),
        ("src/A.py", "src/a.py", True),
    ],
)
def test_path_pattern_of_deny_rule_matches_as_listed(
    project: Project, pattern: str, path: str, matches: bool
) -> None:
    gate = project.gate(deny(f"read:{pattern}"))

    decision = gate.decide([project.claim("read", path.replace("HOME", str(project.home)))])

    assert (decision.effect == "deny") is matches


@pytest.mark.parametrize(
    ("pattern", "path", "allowed"),
    [
        ("~/notes/**", "HOME/notes/x", True),
        ("/etc/hosts", "/etc/hosts", True),
        ("**", "/etc/hosts", False),
        ("~/**", "HOME/.ssh/id_rsa", False),
        ("/etc/**", "/etc/shadow", False),
        ("/etc/**", "/etc/gshadow-", False),
        ("/etc/ssh/*", "/etc/ssh/ssh_host_ed25519_key", False),
        ("/etc/**", "/etc/ssh/ssh_host_ed25519_key.pub", True),
        ("/etc/**", "/etc/ssh/sshd_config", True),
    ],
)
def test_allow_rule_covers_outside_paths_but_no_secrets(
    project: Project, pattern: str, path: str, allowed: bool
) -> None:
    gate = project.gate(allow(f"read:{pattern}"))

    decision = gate.decide([project.claim("read", path.replace("HOME", str(project.home)))])

    assert (decision.effect == "allow") is allowed


@pytest.mark.parametrize(
    "command", ["cat /etc/shadow", "grep root /etc/gsh*w", "cat /etc/ssh/ssh_host_rsa_key"]
)
@pytest.mark.parametrize("rule", ["read:/etc/**", "execute:cat *", "execute:**"])
def test_allow_rule_covers_no_command_that_reads_keys_of_the_system(
    project: Project, command: str, rule: str
) -> None:
    assert project.run(command, allow(rule)).effect == "ask"


def test_deny_rule_applies_to_symlink_and_its_target(own_project: Project) -> None:
    (own_project.root / "link").symlink_to("notes.txt")

    for rule in (deny("read:notes.txt"), deny("read:link")):
        decision = own_project.gate(rule).decide([own_project.claim("read", "link")])
        assert decision.effect == "deny"


def test_allow_rule_does_not_cover_symlink_that_leaves_workspace(own_project: Project) -> None:
    (own_project.root / "out").symlink_to("/etc")

    decision = own_project.gate(allow("edit:out/**")).decide(
        [own_project.claim("edit", "out/hosts")]
    )

    assert decision.effect == "ask"


@pytest.mark.parametrize(
    ("pattern", "host", "matches"),
    [
        ("example.com", "Example.COM.", True),
        ("example.com", "example.com.evil.org", False),
        ("example.com", "notexample.com", False),
        ("*.example.com", "a.b.example.com", True),
        ("*.example.com", "example.com", False),
        ("*", "anything", True),
    ],
)
def test_network_rule_matches_complete_host_name(
    project: Project, pattern: str, host: str, matches: bool
) -> None:
    gate = project.gate(allow(f"network:{pattern}"))

    assert (gate.decide([project.claim("network", host)]).effect == "allow") is matches


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("Bash(git *)", ["execute:git *"]),
        ("Bash(npm run test:*)", ["execute:npm run test *"]),
        ("Bash", ["execute:*"]),
        ("Bash(*)", ["execute:*"]),
        ("Edit", ["edit:**"]),
        ("Write(src/**)", ["edit:src/**"]),
        ("Edit(./src/a.py)", ["edit:src/a.py"]),
        ("Read(//etc/hosts)", ["read:/etc/hosts"]),
        ("Read(~/notes/**)", ["read:~/notes/**"]),
        ("WebFetch(domain:example.com)", ["network:example.com"]),
        ("Bash(git log:*),Edit Read", ["execute:git log *", "edit:**", "read:**"]),
        ("mcp__github__search, mcp__files", ["mcp:github.search", "mcp:files.*"]),
        ("", []),
    ],
)
def test_claude_code_rules_are_translated(text: str, rules: list[str]) -> None:
    assert [str(rule) for rule in parse_claude_rules(text)] == rules


@pytest.mark.parametrize("text", ["Bish(git *)", "Bash(git", "Bash)", "(x)", "Bash(a) &&"])
def test_unknown_claude_code_rule_raises_error(text: str) -> None:
    with pytest.raises(UsageError):
        parse_claude_rules(text, "deny", source="--disallowedTools")


@pytest.mark.parametrize("path", ["/w/a ", "/w/a\t", "/w/a\\ ", "/w/a  ", "/w/*?\\", "/w/ a\n"])
def test_exact_rule_for_path_covers_only_that_path(path: str) -> None:
    fact = PathFact("edit", ResolvedPath(asked=path, real=path, inside=True))
    rule = parse_rule(exact_rule(fact), "allow")

    assert permits(rule, fact, Anchors())
    bare = path.rstrip()
    other = PathFact("edit", ResolvedPath(asked=bare, real=bare, inside=True))
    assert bare == path or not permits(rule, other, Anchors())
