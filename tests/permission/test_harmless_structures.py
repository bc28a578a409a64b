"""Lines with `if`, `for`, tests, variables, comments and input files that only look."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.permission.conftest import Project, allow, ask, deny
from tests.security.sizes import size

LOOKS = [
    "git status # note",
    "# look\nls -la",
    "ls && # then\ncat a",
    "[ -f x ] && cat x",
    "[ ! -d src ] || ls src",
    "[ -f a -a -d src ] && [ a != b ] && pwd",
    "[ 1 -lt 2 ]; echo $?",
    "if grep -q x a; then echo yes; else echo no; fi",
    "if ! [ -e a ]; then ls; elif true; then pwd; fi 2>/dev/null",
    'for f in *.md; do cat "$f"; done',
    "for f in *.md; do cat $f; done",
    'for f in a b; do echo "== $f"; head -5 "$f"; done | sort',
    "for i in 1 2 3\ndo\n  # count\n  echo $i\ndone",
    'for f in a b; do if [ -f "$f" ]; then wc -l "$f"; fi; done',
    'cd src && for f in *.py; do cat "$f"; done',
    "cat < a",
    "grep -c x < notes.txt",
    'echo "$PWD" ${PWD}/x',
    "ls $PWD/src",
    "! grep -q x a",
]


@pytest.mark.parametrize("command", LOOKS)
def test_line_in_which_every_part_only_looks_is_allowed(project: Project, command: str) -> None:
    decision = project.run(command)

    assert (decision.effect, decision.is_read_only, decision.needs_hardening) == (
        "allow", True, True,
    )  # fmt: skip


def test_home_variable_is_known_where_it_is_the_home_folder(
    own_project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(own_project.home))

    assert own_project.run("echo $HOME").effect == "allow"
    assert own_project.run("ls ~/proj").effect == "allow"
    assert own_project.run("cat $HOME/notes").effect == "ask"
    assert own_project.run("cat ~/.ssh/id_rsa").policy == "protected"
    assert own_project.run("grep -r x $HOME/.local").effect == "deny"


ASKS = [
    "for f in a b; do rm $f; done",
    "if true; then make; fi",
    "if make; then ls; fi",
    "for f in a; do ls; done > out",
    "for f in a; do cat $f > b; done",
    "for PATH in .; do ls; done",
    "for IFS in /; do ls; done",
    "for path in .; do ls; done",
    "for f in $(id); do ls; done",
    "for f in $X; do ls; done",
    "for f in a; do for f in b; do cat $f; done; done",
    "for f in a; do cd src; cat b; done",
    "for f in x; do ls; done; cat $f",
    "for f in 'a b'; do cat $f; done",
    "for f in '*'; do cat $f; done",
    'for f in *; do sort "$f"; done',
    'for f in .e*; do cat "$f"; done',
    'for f in .en; do cat "${f}v"; done',
    'for d in .; do cat "$d/.env"; done',
    "for f; do ls; done",
    "for ((;;)); do ls; done",
    "while true; do ls; done",
    "cat < .env",
    "cat < ../x",
    "cat < /etc/passwd",
    "cat < /dev/tcp/example.com/80",
    "cat < $X",
    "cat < *",
    "cat <> a",
    "make < a",
    "sh < a",
    "[ -v 'a[$(id)]' ]",
    "test -v 'a[$(id)]'",
    "[ -R x ]",
    "[ -f * ]",
    "[ 'a[$(id)]' -eq 0 ]",
    "[ a -a -v 'a[$(id)]' ]",
    "[[ a -eq 0 ]]",
    "[ -f a",
    "echo $X",
    'echo "$X"',
    "echo ${PWD:-x}",
    "echo ${!PWD}",
    "echo $PATH",
    "cd src; echo $PWD",
    "ls -$?",
    "$PWD/x",
    "echo $(id)",
    'echo "$(id)"',
    "ls # x\nrm a",
    "ls #x\n$(id)",
    "! rm a",
    "if true; then ls; fi; rm a",
    "if ls then rm a; fi",
]


@pytest.mark.parametrize("command", ASKS)
@pytest.mark.parametrize("rule", ["", "execute:ls *", "execute:echo *"])
def test_line_with_an_unknown_part_or_value_asks(project: Project, command: str, rule: str) -> None:
    assert project.run(command, *([allow(rule)] if rule else [])).effect == "ask"


@pytest.mark.parametrize("command", ["if true; then make x; fi", "for i in a; do make $i; done"])
def test_no_rule_allows_a_structure_in_which_something_runs(project: Project, command: str) -> None:
    decision = project.run(command, allow("execute:make *"))

    assert (decision.effect, decision.grant) == ("ask", ())
    assert decision.once_only


def test_comment_does_not_keep_a_rule_from_matching(project: Project) -> None:
    assert project.run("# test\nmake x # now", allow("execute:make x")).effect == "allow"
    assert project.run("make x # && rm a").grant == ("execute:make x",)
    assert project.run("[ -f Makefile ] && make x", allow("execute:make x")).effect == "allow"


@pytest.mark.parametrize(
    "command",
    ["if true; then cat notes.txt; fi", 'for f in *.txt; do cat "$f"; done', "cat < notes.txt"],
)
@pytest.mark.parametrize("rule", ["read:notes.txt", "execute:cat *"])
def test_deny_and_ask_rules_apply_inside_structures(
    project: Project, command: str, rule: str
) -> None:
    assert project.run(command, deny(rule), mode="yolo").effect == "deny"
    assert project.run(command, ask(rule)).effect == "ask"


def test_names_that_would_be_split_are_found(own_project: Project) -> None:
    assert own_project.run("for f in *.x; do cat $f; done").effect == "allow"
    (own_project.root / "a -b.x").write_text("")

    assert own_project.run("for f in *.x; do cat $f; done").effect == "ask"
    assert own_project.run('for f in *.x; do cat "$f"; done').effect == "allow"


HARMFUL = [
    "rm a", "make", "curl x", "touch a", "sh", "git push", "> x", "eval ls", "$(id)", "`id`",
    "cat .env", "cat /etc/passwd", "cat > x", "export A=b", "read x", "ls & rm a",
]  # fmt: skip
HARMLESS = ["ls", "cat a", "[ -f a ]", "echo $PWD", 'echo "$f"', "true", "grep -q x a", "cat < a"]
SHAPES = [
    "if {0}; then {1}; fi", "if true; then {0}; else {1}; fi", "for f in a b; do {0}; {1}; done",
    "for f in a; do if {0}; then {1}; fi; done", "! {0} && {1}", "{0} # x\n{1}", "{0} | {1}",
    "if {0}\nthen {1}\nelif ls; then {0}; fi 2>&1", "[ -f a ] && {0} || {1}",
]  # fmt: skip


@settings(
    max_examples=size(150, 20_000),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.sampled_from(SHAPES), st.sampled_from(HARMLESS), st.sampled_from(HARMFUL), st.booleans(),
    st.sampled_from(["", *SHAPES]),
)  # fmt: skip
def test_no_structure_hides_a_part_that_does_more_than_look(
    project: Project, shape: str, look: str, act: str, is_first: bool, around: str
) -> None:
    text = shape.format(*((act, look) if is_first else (look, act)))
    text = around.format("ls", text) if around else text

    assert project.run(text).effect != "allow"
