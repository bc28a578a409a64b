"""Deny rules under yolo: what can't be parsed is denied, too."""

import base64
import shlex

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.security.sizes import size

from .conftest import Project, allow, deny

CURL = deny("execute:curl *")
PUSH = deny("execute:git push*")


@pytest.mark.parametrize(
    "command",
    [
        # patterns, variables, substitutions
        "/usr/bin/cu*l x", "cur[l] x", "[c]url x", "{cu,}rl x", "{c..c}url x", "~/bin/cur* x",
        "c=curl; $c x", "c=cu; d=rl; $c$d x", "c=ls; cd=$(echo curl); $c$cd x", "$(which curl) x",
        "`echo curl` x", "cu$(echo r)l x", "cu${x}rl y", "cu$@rl y", "${c:-curl} x", "$_ x",
        "x='curl y'; $x", "a=(curl x); \"${a[@]}\"", "c=$1; $c x", "\"$1\" x", "$1/curl x",
        "f() { $c x; }; c=curl; f", "c=ls; f() { $c x; }; c=curl; f", "f() { \"$@\"; }; f curl x",
        "for c in curl; do $c x; done", "for i in 1 2; do $c x; c=curl; done",
        "read c <<< curl; $c x", "printf -v c curl; $c x", "declare -n r=c; r=curl; $c x",
        "IFS=x; c=axcurl; $c", "set -- curl; $1 x", "HOME=$(x); $HOME/y",
        "while read l; do $l; done",
        # other names for the program
        "alias c=curl; c x", "hash -p /usr/bin/curl c; c x", "BASH_ALIASES[x]=curl; x y",
        "git config alias.x '!curl y'; git x", "git -c alias.x='!curl' x",
        # text that a shell reads
        'eval "$x$1"', "eval c'='curl; $c x", "eval 'a''b=curl'; $ab x", "bash -c '$0 x' curl",
        "c='$d x'; d=curl; eval $c", "export c=curl; bash -c '$c x'", 'env -S "$1"',
        "trap '$1' EXIT",
        "echo 'curl x' | sh", "echo Y3Vyb | base64 -d | bash", "cat x | sudo bash", "sh < x",
        "bash -s",
        "bash /dev/stdin < x", "bash <(echo curl x)", "source <(echo curl x)", "bash <<< 'curl x'",
        "bash <<'EOF'\nc=curl; $c x\nEOF", "bash <<EOF\n$1 x\nEOF", "echo 'curl x' | at now",
        # wrappers
        "sudo $1 x", "sudo -u root cu*l x", "timeout 5 \"$1\" x", "env - $1 y", "time -p $1 x",
        "xargs -I% % y", "xargs -I{} sh -c '{}'", "echo curl x | parallel",
        "find /usr/bin -name 'cu*l' -exec {} x \\;", "/lib64/ld-linux-x86-64.so.2 /usr/bin/curl x",
        "git bisect run curl x", "git submodule foreach 'curl x'", "git rebase -x 'curl x' main",
        "git -c core.pager='curl x' log", "tar -xf a --to-command='curl x'",
        # code in arguments
        "python3 -c 'import subprocess as s; s.run([\"cu\"+\"rl\"])'", "perl -e 'exec \"curl\"'",
        "node -e 'require(\"child_process\").execSync(\"curl x\")'", "python3 -c \"$1\"",
        "awk 'BEGIN{c=\"cu\" \"rl\"; system(c)}'",
        # quote characters that quote nothing
        "# don't\n$1 x # it's", "cat <<EOF\ndon't $($1 x) it's\nEOF",
        "cat <<'EOF'\ndon't\nEOF\n$1 x\ncat <<'EOF'\nit's\nEOF",
    ],
)  # fmt: skip
def test_deny_rule_applies_to_program_in_any_spelling(project: Project, command: str) -> None:
    denied = project.run(command, CURL, mode="yolo")
    asked = project.run(command, CURL, allow("execute:*"))

    assert (denied.effect, denied.policy) == ("deny", "deny-rule")
    assert "`execute:curl *`" in denied.reason
    assert asked.effect != "allow"


@pytest.mark.parametrize(
    "command",
    [
        "git $(echo push)", "alias g=git; g push", "s=push; git $s", "git \"$1\"", "git $x$1 push",
        "git -C $(echo x push) status", "echo push | xargs git", "git p", "\"$1\" push",
        "git pu{s,}h", "find . | xargs git",
    ],
)  # fmt: skip
def test_command_with_unknown_argument_is_denied_by_deny_rule_for_argument(
    project: Project, command: str
) -> None:
    assert project.run(command, PUSH, mode="yolo").effect == "deny"


def test_glob_counts_as_the_names_it_expands_to(own_project: Project) -> None:
    rule = deny("execute:make dist*")
    assert own_project.run("make dis?", rule, mode="yolo").effect == "allow"
    own_project.root.joinpath("dist").touch()

    assert own_project.run("make dis?", rule, mode="yolo").effect == "deny"


@pytest.mark.parametrize(
    "command",
    [
        'echo "$HOME/x" $USER', "x=1; echo $x", 'for f in a b; do wc -l "$f"; done',
        "make -j$(nproc)",
        "python3 x.py", "python3 -c 'import sys; print(sys.version)'", "perl -pe 's/a/b/' a",
        "git commit -m \"$(cat <<'EOF'\nAdd $x, don't\nEOF\n)\"",
        "cat > f <<'EOF'\n$x is\nit's\nEOF",
        "case $x in [Yy]*) echo y;; *) echo n;; esac", 'if [ -f "$f" ]; then echo y; fi',
        'while read -r line; do echo "$line"; done < f',
        "cd $(git rev-parse --show-toplevel) && ls",
        "find . -name '*.py' -exec wc -l {} +", "find . -name '*.py' | xargs wc -l", "ls *.py",
        'timeout "$T" make', "env FOO=$BAR make", "PYTHONPATH=$PWD python3 x.py",
        "awk '{print $1}' f",
        "grep 'foo$' f", 'export PATH="$HOME/bin:$PATH"',
        "source .venv/bin/activate && python -m x",
        'bash x.sh "$1"', "bash -c 'make && ls'", "PY=python3; $PY -m pytest", "$HOME/bin/tool x",
        "docker run -v $(pwd):/x img ls", "./gradle* build", "# don't worry\nls", "git lfs pull",
        "python3 - <<'EOF'\nprint('$x')\nEOF", 'sudo -u "$USER" ls', "echo $((1+2)); kill $PID",
        "nohup make > log 2>&1 &", "trap 'rm -f x' EXIT; make", "diff <(ls a) <(ls b)",
    ],
)  # fmt: skip
def test_ordinary_commands_are_allowed_despite_deny_rule(project: Project, command: str) -> None:
    decision = project.run(command, CURL, mode="yolo")

    assert (decision.effect, decision.reason) == ("allow", decision.reason)


@pytest.mark.parametrize(
    "command",
    ["git log $1", 'git commit -m "$(cat x)"', 'git -C "$1" status', 'git checkout -b "$1"',
     'for d in */; do git -C "$d" pull; done', "rm -rf build", "echo $1"],
)  # fmt: skip
def test_unknown_argument_elsewhere_is_allowed_despite_deny_rule(
    project: Project, command: str
) -> None:
    assert project.run(command, PUSH, mode="yolo").effect == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "x=.env; cat $x", "cat .e*v", "cat .en?", "cat .en{v,}", "cat .en{v..v}", "cat < $1",
        "x=.e; y=nv; cat $x$y", "x=$(echo .env); cat $x", 'cat "$1"', "cat $(echo .env)",
        'cp "$1" y',
        'while read f; do cat "$f"; done < l', "find . -name '.e*' -exec cat {} \\;", 'grep x "$1"',
        "find . | xargs cat", "ls -a | grep env | xargs cat", "echo .env | xargs cat", "source $1",
        "for f in .*; do cat $f; done", "bash -c 'cat $1' x .env", 'mapfile x < "$1"',
        "HOME=$(pwd); cat $HOME/.env", "find src | xargs cat; echo .env | xargs cat",
    ],
)  # fmt: skip
def test_read_deny_rule_applies_to_files_not_named_literally(
    project: Project, command: str
) -> None:
    assert project.run(command, deny("read:.env"), mode="yolo").effect == "deny"
    assert project.run(command, deny("read:.env"), allow("execute:*")).effect != "allow"


@pytest.mark.parametrize(
    "command",
    [
        "echo $1", "make -j$(nproc)", "x=a; cat $x", "cat src/*.py",
        "for f in src/*; do cat $f; done",
        'head -n "$1" a', 'grep "$1" a', 'git commit -m "$(date)"', 'cat "$PWD/a"', "cat <<< $1",
        "find src -name '*.py' -exec cat {} +", "find src | xargs cat",
        "git ls-files src | xargs wc",
        "while read l; do echo $l; done < a", "cat <<EOF > b\n$1\nEOF", "awk '{print $1}' a",
        "ls $1",
        "mkdir -p $1",
    ],
)  # fmt: skip
def test_read_deny_rule_does_not_apply_to_words_that_are_no_files(
    project: Project, command: str
) -> None:
    assert project.run(command, deny("read:.env"), mode="yolo").effect == "allow"


@pytest.mark.parametrize(
    "command",
    ["x=src/a.py; rm $x", "rm $(echo src/a.py)", "echo x > $1", 'touch "$1"', "find src | xargs rm",
     "for f in src/*; do rm $f; done"],
)  # fmt: skip
def test_edit_deny_rule_applies_to_files_not_named_literally(
    project: Project, command: str
) -> None:
    assert project.run(command, deny("edit:src/a.py"), mode="yolo").effect == "deny"


def test_denial_reason_says_what_to_write_out(project: Project) -> None:
    reason = project.run("$1 x", CURL, mode="yolo").reason

    assert "dirge cannot tell which program `$1` is before the command runs; write it out" in reason


def test_plan_mode_denies_command_that_deny_rule_may_match(project: Project) -> None:
    decision = project.run("$1 x", CURL, mode="plan")

    assert (decision.effect, decision.policy) == ("deny", "mode")


def pieces(word: str) -> st.SearchStrategy[str]:
    """Spellings of `word` that a shell still reads or computes as it."""
    quoted = st.sampled_from(
        ["{}", "'{}'", '"{}"', "$'{}'", "$(echo {})", "`echo {}`", "${{x:-{}}}"]
    )
    at = st.integers(1, len(word) - 1)
    halves = st.builds(lambda n, a, b: a.format(word[:n]) + b.format(word[n:]), at, quoted, quoted)
    letters = st.builds(lambda n: f"{word[:n]}\\{word[n:]}", at)
    globs = st.builds(lambda n: f"/usr/bin/{word[:n]}*", at)
    encoded = base64.b64encode(word.encode()).decode()
    return st.one_of(
        halves,
        letters,
        globs,
        st.just(f"$(echo {encoded} | base64 -d)"),
        st.just(f"/usr/bin/{word}"),
    )


def calls(word: str) -> st.SearchStrategy[str]:
    """Return command lines that run a program of this name."""
    spelled = pieces(word)
    named = st.sampled_from(["v", "PROGRAM", "_x1"])
    return st.one_of(
        spelled.map("{} x".format),
        st.builds("{0}={1}; ${0} x".format, named, spelled),
        st.builds('{0}={1}; "${{{0}}}" x'.format, named, spelled),
        st.builds("for {0} in {1}; do ${0} x; done".format, named, spelled),
        st.builds("f() {{ ${0} x; }}; {0}={1}; f".format, named, spelled),
        st.builds("alias {0}={1}; {0} x".format, named, spelled),
        st.builds('set -- {0}; "$@"'.format, spelled),
        st.builds("echo {0} x | sh".format, spelled),
        st.builds("echo x | xargs {0}".format, spelled),
    )


around = st.sampled_from(
    [
        "{}", "ls && {}", "{} | cat", "( {} )", "if true; then {}; fi", "while true; do {}; done",
        "x=$({})", "echo \"$({})\"", "cat <({})", "! {}", "{} &", "{{ {}; }}", "# it's\n{}",
        "cat <<EOF\n$({})\nEOF", "bash <<'EOF'\n{}\nEOF", "case a in a) {};; esac",
        "eval {quoted}", "bash -c {quoted}",
    ]
)  # fmt: skip


@settings(
    max_examples=size(150, 5000),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(calls("curl"), around, around)
def test_any_command_that_runs_denied_program_is_denied(
    project: Project, call: str, inner: str, outer: str
) -> None:
    within = inner.format(call, quoted=shlex.quote(call))
    command = outer.format(within, quoted=shlex.quote(within))

    assert project.run(command, CURL, mode="yolo").effect == "deny"
