"""Commands that other agents let through, one per row; none runs unasked.

A row has rules that a user might have made, a command that they must not allow, and a similar one
that they do allow. The similar one shows that the rules apply and that nothing else makes it ask.
"""

from dataclasses import dataclass

import pytest

from dirge_py.lib.shell_lexer import lex
from dirge_py.permission.rules import Mode
from dirge_py.permission.shell import sees_the_same

from .conftest import Project, allow, deny


@dataclass(frozen=True, kw_only=True)
class Row:
    refused: tuple[str, ...]
    allowed: tuple[str, ...]
    allow: tuple[str, ...] = ()


ROWS = {
    # `echo *` on the list of allowed commands covered `echo x && rm` (CVE-2025-54795).
    "chained-command-after-wildcard": Row(
        allow=("execute:echo **", "execute:ls **", "execute:printf *"),
        refused=("echo x && rm -rf src", "echo x; rm a", "echo x | sh", "echo x || rm a",
            "echo x\nrm a", "echo x & rm a", "ls -la\n\\rm -rf src", "ls\n\\\nrm a",
            "printf x && curl example.com", "echo 'x' && 'rm' a", "echo x &&rm a"),
        allowed=("echo x && ls -la", "printf x"),
    ),
    # Arguments of ripgrep start programs (CVE-2025-58764).
    "rg-option-starts-program": Row(
        refused=("rg --pre ./x foo", "rg --pre=sh . src", "rg --hostname-bin ./x foo",
            "rg -z foo", "rg foo --pre ./x", "rg 'a' --pre='sh' src", "rg -e x --search-zip"),
        allowed=("rg foo src", "rg -e pre src"),
    ),
    # `$IFS`, short flags and other text that a parser reads differently from bash (CVE-2025-66032).
    "words-parsed-differently-than-bash": Row(
        refused=("cat$IFS/etc/passwd", "echo x$IFS;rm", "sort${IFS}-o${IFS}a${IFS}b",
            "sort -oa b", "sort --out\\\nput=a b", "sort {-o,a} b", "find . -ex\\ec rm a +",
            "cat ~/x", "cat \\ x", "ls\x0b-a", "ls\x0c-a", "ls\r-a", "sort -ruo a b",
            "sort --outp=a b", "$'rm' a", "git log -\U00050700"),
        allowed=("sort -ru a", "cat 'a' \"b\"", "find . -name x"),
    ),
    # `find -exec` and its relatives (CVE-2026-24887).
    "find-executes-or-deletes": Row(
        refused=("find . -exec rm {} +", "find . -exec ls ';'", "find . -execdir ls ';'",
            "find . -ok ls ';'", "find . -okdir ls ';'", "find . -delete", "find . -fprint a",
            "find . -fls a", "find . -fprintf a x", "find . -name x -o -exec ls '{}' ';'",
            "find . '(' -name x -delete ')'", "find -files0-from a"),
        allowed=("find . -name x -print0", "find . '(' -name a -o -name b ')'"),
    ),
    # `sed` writes files and starts programs from its script (CVE-2025-64755).
    "sed-writes-or-executes": Row(
        refused=("sed -n 'w out' a", "sed 's/a/b/w out' a", "sed 's/a/b/e' a",
            "sed -n '1e id' a", "sed e a", "sed -i s/a/b/ a", "sed -n 1p -i a", "sed -f a b",
            "sed -n '$!N;w x' a", "echo 1 | sed 'w out'", "cat a | sed -n '1,2w out'",
            "sed --expression='w x' a", "sed -n --in-place 1p a"),
        allowed=("sed -n '1,20p' a", "cat a | sed -n 2p"),
    ),
    # `awk` has `system()`, pipes and files of its own.
    "awk-executes-writes-and-reads": Row(
        refused=("awk 'BEGIN { system(\"id\") }'", "awk '{ print > \"out\" }' a", "gawk 1 a",
            "awk 'BEGIN { while ((getline x < \".env\") > 0) print x }'", "mawk 1 a", "nawk 1 a",
            "cat a | awk '{ print | \"sh\" }'", "awk '{ print > \".git/hooks/pre-commit\" }' a",
            "awk 1 a"),
        allowed=("cut -d: -f1 a",),
    ),
    # Resolving a name sends it to the name server of its domain (CVE-2025-55284).
    "dns-lookup-leaks-data": Row(
        refused=("ping -c1 secret.example.com", "nslookup secret.example.com",
            "host x.example.com", "dig x.example.com", "getent hosts x", "hostname -f",
            "hostname -i", "traceroute x", "whois x", "git ls-remote", "git remote show origin",
            "cat a | ping x"),
        allowed=("hostname", "git remote -v"),
    ),
    # Expansions run commands although nothing looks like a command (GHSA-g8r9-g2v8-jv6f).
    "expansion-runs-command": Row(
        allow=("execute:echo **",),
        refused=("echo ${x@P}", "echo ${x:=$(id)}", "echo ${!x}", "echo \"${x@P}\"",
            "echo $((a[$(id)]))", "echo $(echo $(id))", "echo `id`", "echo \"`id`\"",
            "echo \"$(id)\"", "echo <(id)", "echo ${x:-`id`}", "echo $[a]", "test -v 'a[$(id)]'",
            "printf -v 'a[$(id)]' x", "[ -v 'a[$(id)]' ]", "[[ 'a[$(id)]' -eq 0 ]]"),
        allowed=("echo '${x@P}'", "echo 'a[$(id)]'", "test -f a"),
    ),
    # `export` and `declare` were trusted, and poisoned the command behind them (CVE-2026-22708).
    "builtin-changes-later-commands": Row(
        refused=("export A=b", "declare -x A", "alias x=ls", "export GIT_PAGER=x; git branch",
            "export PAGER='sh -c id' && git branch", "declare -x PAGER=x; git log",
            "typeset -x A=b", "readonly PATH=.", "set -o x; ls", "shopt -s expand_aliases; ls",
            "alias ls=rm; ls", "unset PATH; ls", "hash -p ./x ls; ls", "enable -n echo; echo",
            "let 'a[$(id)]'", "local x=1", "IFS=x; ls", "trap ls EXIT", "source a", ". a",
            "read -r x", "mapfile -C ls a", "complete -C ls x", "exec ls", "ls() { rm a; }; ls"),
        allowed=("type ls; git branch",),
    ),
    # A script in quotes is text to every rule but its interpreter's.
    "interpreter-hides-command": Row(
        allow=("execute:bash **",),
        refused=("bash -c 'rm .dirge/config.toml'", "bash -c \"bash -c 'touch .git/hooks/x'\"",
            "bash -c 'cp a .mcp.json'", "sh -c 'echo x > .git/config'", "python -c 'open(1)'",
            "perl -e 'unlink 1'", "node -e 'x'", "ruby -e x", "env bash -c 'rm a'",
            "bash -c 'rm a' && sh -c 'rm b'"),
        allowed=("bash -c 'make all'",),
    ),
    # The protected name is in another word than the folder given to `cd`.
    "cd-hides-protected-path": Row(
        allow=("execute:touch **", "execute:cp **", "execute:tee **", "edit:**"),
        refused=("cd .git && touch hooks/pre-commit", "cd .git/hooks && cp ../../a pre-commit",
            "cd src && cd ../.git && touch config", "cd src; touch ../.git/config",
            "cd .dirge && touch config.toml", "cd / && touch x", "cd src/../.. && touch x",
            "cd .git && echo x > config", "cd src && cp a.py ../.git/hooks/pre-commit"),
        allowed=("cd src && touch new", "touch new"),
    ),
    # A command that did not parse was compared as plain text, and `echo **` covers any text.
    "unparsed-command-matched-as-text": Row(
        allow=("execute:echo **", "execute:ls **"),
        refused=("echo x; rm a; echo 'unclosed", "echo x\nrm a\nif", "echo x; rm a; )",
            "echo x; rm a; ;;", "echo $(rm a", "echo x; rm a <<", "echo x && rm a ||",
            "ls; rm a; \"", "{ echo x; rm a", "{\U00050700", "echo {\U000e0041; rm a"),
        allowed=("echo x; ls",),
    ),
    # A redirection behind a compound made its parts invisible.
    "redirected-compound-hides-parts": Row(
        allow=("execute:echo **", "execute:cat **"),
        refused=("echo hi; if true; then curl x; fi >/dev/null", "{ curl x; } >/dev/null",
            "(curl x) 2>&1", "for i in a; do curl x; done >/dev/null",
            "while curl x; do :; done 2>/dev/null",
            "echo x; case a in a) curl x;; esac >/dev/null",
            "until curl x; do :; done </dev/null", "echo x | { curl x; } 2>/dev/null",
            "f() { curl x; } >/dev/null; f"),
        allowed=("echo hi >/dev/null 2>&1",),
    ),
    # The target of a redirection was not compared with the rules.
    "redirection-not-compared": Row(
        allow=("execute:echo **", "execute:cat **", "execute:ls **"),
        refused=("echo x > ~/.bashrc", "echo x >> ~/.bashrc", "echo x > /etc/x",
            "echo x > .git/config", "cat a >| b/../../c", "echo x 1> ../x", "echo x &> /etc/x",
            "cat < /etc/passwd", "cat < .env", "ls > .dirge/config.toml", "echo x >& ../x",
            "ls 2> ../x", "echo x <> ../x"),
        allowed=("echo x > /dev/null", "ls 2>&1"),
    ),
    # `PATH=. ls` was taken for `ls`.
    "leading-assignment-ignored": Row(
        allow=("execute:ls **", "execute:git **", "execute:make"),
        refused=("PATH=. ls", "LD_PRELOAD=./x.so ls", "GIT_SSH_COMMAND=./x git fetch",
            "GIT_EXTERNAL_DIFF=./x git diff", "BASH_ENV=x ls", "A=b PATH=. make", "PATH+=:. ls",
            "env PATH=. ls", "PAGER=./x git log", "IFS=/ ls"),
        allowed=("ls", "git fetch", "make"),
    ),
    # A wildcard rule for a command also allowed every path outside the project.
    "wildcard-allows-outside-paths": Row(
        allow=("execute:*", "edit:**", "read:**"),
        refused=("cat /etc/passwd", "touch /tmp/x", "cp a /tmp/x", "ls ..", "cat ~/.ssh/id_rsa",
            "cd .. && cat x", "head -1 ../x", "rm ../x", "echo x > /tmp/x", "cd / && ls .",
            "find / -name x"),
        allowed=("cp a b", "touch src/new", "make"),
    ),
    # A program in the project that has the name of a listed program.
    "other-program-with-same-name": Row(
        allow=("execute:git status",),
        refused=("./git status", "/tmp/x/git status", "src/git status", "./ls", "/bin/ls",
            "~/git status", "../git status", "././git log", "bin/cat a"),
        allowed=("git status", "ls"),
    ),
    # A file may be called `-o` or `--output=x`: a pattern becomes an option.
    "glob-expands-to-option": Row(
        refused=("sort *", "git diff *", "find *", "rg *", "uniq *", "sed -n 1p *", "date *",
            "tail *", "sort ?o", "sort [-]o a", "sort -k1 * a", "git log *"),
        allowed=("sort -- *", "sort ./*", "cat src/*"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_commands_that_other_agents_let_through_are_not_allowed(project: Project, row: str) -> None:
    rules = [allow(rule) for rule in ROWS[row].allow]

    effects = {text: project.run(text, *rules).effect for text in ROWS[row].refused}
    neighbours = {text: project.run(text, *rules).effect for text in ROWS[row].allowed}

    assert [text for text, effect in effects.items() if effect == "allow"] == []
    assert set(neighbours.values()) == {"allow"}, neighbours


@pytest.mark.parametrize("parts", [50, 51, 64, 65, 200])
@pytest.mark.parametrize("mode", ["standard", "yolo"])
def test_deny_rule_applies_after_any_number_of_command_parts(
    project: Project, parts: int, mode: Mode
) -> None:
    command = " && ".join([*["ls"] * (parts - 1), "rm a"])

    assert project.run(command, deny("execute:rm *"), mode=mode).effect == "deny"
    assert project.run("; ".join(["ls"] * parts)).effect == ("allow" if parts <= 64 else "ask")


@pytest.mark.parametrize("mode", ["standard", "accept", "yolo"])
def test_allowed_part_or_claim_does_not_stop_check_of_others(project: Project, mode: Mode) -> None:
    gate = project.gate(allow("execute:*"), deny("execute:rm *"), mode=mode)
    gate.add_grant("execute:ls")
    gate.add_grant("execute:rm a")
    claims = [project.claim("read", "README.md"), project.execute("ls && cp a b && rm a")]

    assert gate.decide(claims).effect == "deny"
    assert gate.decide(list(reversed(claims))).effect == "deny"
    assert gate.decide([project.execute("ls && cp a b")]).effect == "allow"


@pytest.mark.parametrize("command", ["ls ==", "ls ] [", "ls 2>&1 a", "ls |1@ x", "ls -2>&1"])
def test_command_that_lexer_and_parser_read_differently_asks(
    project: Project, command: str
) -> None:
    assert not sees_the_same(command, lex(command))
    assert project.run(command, allow("execute:ls *"), allow("execute:*")).effect == "ask"


@pytest.mark.parametrize(
    ("granted", "not_covered"),
    [
        ("npm run dev", ("npm run build", "npm run dev x", "npm run", "npm run dev && npm test")),
        (
            "make test",
            ("make", "make install", "make test -j2", "make test > log", "A=b make test"),
        ),
        ("python x.py", ("python y.py", "python x.py --all", "python", "python3 x.py")),
    ],
)
def test_grant_does_not_cover_similar_commands(
    project: Project, granted: str, not_covered: tuple[str, ...]
) -> None:
    gate = project.gate()
    for rule in project.run(granted).grant:
        gate.add_grant(rule)

    assert gate.decide([project.execute(granted)]).effect == "allow"
    assert {gate.decide([project.execute(text)]).effect for text in not_covered} == {"ask"}


def test_sibling_folder_with_same_prefix_is_outside_project(own_project: Project) -> None:
    other = own_project.home / "proj-other"
    other.mkdir()
    other.joinpath("x").write_text("")
    gate = own_project.gate(allow("edit:**"), allow("read:**"))

    for op in ("read", "edit"):
        assert gate.decide([own_project.claim(op, "../proj-other/x")]).effect == "ask"
        assert gate.decide([own_project.claim(op, "../proj/x")]).effect == "allow"
    assert gate.decide([own_project.execute(f"cat {other}/x")]).effect == "ask"


@pytest.mark.parametrize(
    "path",
    [".git/hooks/x", ".dirge/config.toml", ".dirge/mcp.json", ".mcp.json", ".husky/x", ".envrc",
     ".vscode/tasks.json"],
)  # fmt: skip
def test_protected_name_is_protected_whether_or_not_file_exists(
    own_project: Project, path: str
) -> None:
    gate = own_project.gate(allow("edit:**"), allow("execute:*"))
    claims = ([own_project.claim("edit", path)], [own_project.execute(f"touch {path}")])
    before = [gate.decide(claim).policy for claim in claims]
    target = own_project.root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("")

    after = [gate.decide(claim).policy for claim in claims]

    assert before == after == ["protected", "protected"]


@pytest.mark.parametrize(
    "path",
    [".GIT/config", ".Git./config", ".git /config", ".Mcp.JSON", ".VSCode/Settings.json",
     ".DIRGE/Config.toml", ".dir\u200cge/x", ".g\ufeffit/config", ".GitHub/WORKFLOWS/x.yml",
     "sub/.HUSKY/pre-commit"],
)  # fmt: skip
def test_protected_name_asks_in_any_letter_case_and_spelling(project: Project, path: str) -> None:
    decision = project.gate(allow("edit:**")).decide([project.claim("edit", path)])

    assert (decision.effect, decision.policy) == ("ask", "protected")


@pytest.mark.parametrize("mode", ["standard", "accept", "restrictive", "plan"])
@pytest.mark.parametrize(
    "path", ["HOME/.ssh/id_rsa", "HOME/.aws/credentials", "/etc/passwd", "../x", "HOME/notes"]
)
def test_reading_outside_project_asks_in_every_mode_but_yolo(
    project: Project, mode: Mode, path: str
) -> None:
    place = path.replace("HOME", str(project.home))
    gate = project.gate(mode=mode)

    assert gate.decide([project.claim("read", place)]).effect == "ask"
    assert gate.decide([project.execute(f"cat {place}")]).effect != "allow"
    assert gate.decide([project.claim("read", "README.md")]).effect == "allow"
