import pytest

from dirge_py.lib.shell_lexer import (
    MAX_PARTS,
    MAX_WORDS,
    NotPlain,
    Word,
    lex,
    starts_program,
    with_single_spaces,
)
from dirge_py.permission.shell import sees_the_same
from tests.permission.conftest import Project


@pytest.mark.parametrize(
    ("text", "argvs"),
    [
        ("ls -la 'a b'\"c d\"e", [("ls", "-la", "a bc de")]),
        ("ls;\n\npwd\n", [("ls",), ("pwd",)]),
        ("ls &&\n pwd | wc -l || true", [("ls",), ("pwd",), ("wc", "-l"), ("true",)]),
        ("ls >/dev/null 2>&1 | wc", [("ls",), ("wc",)]),
        ("echo '$(x) `y` \\n' \"\"", [("echo", "$(x) `y` \\n", "")]),
        ("git show HEAD~1:a", [("git", "show", "HEAD~1:a")]),
    ],
)
def test_plain_commands_are_split_into_words(text: str, argvs: list[tuple[str, ...]]) -> None:
    parts = lex(text)

    assert [part.argv for part in parts] == argvs
    assert sees_the_same(text, parts)


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "ls $x", "ls \\x", "ls\n\\rm -rf x", "ls\n\\\nrm x", "ls `x`", "ls {a,b}", "ls ~",
        "ls a=~", "ls a:~", "ls &", "ls & pwd", "ls &&", "&& ls", "ls ;; ls", "ls |& wc", "! ls",
        "(ls)", "A=1 ls", "A+=1 ls", "a[0]=1 ls", "'ls'", "l*", "[[ -f x ]]", "if ls",
        "time ls", "ls > x", "ls < x", "ls >> x", "ls 2>x", "ls 22>/dev/null", "ls >/dev/nullx",
        "ls <<x", "ls <<<x", "ls >&x", "#", "ls#x",
        "echo \"$x\"", "echo \"a\\b\"", "echo \"!x\"",
        "echo 'x", "ls\x0b-a", "ls\x0c", "ls\r", "ls é", "ls \u202e", "ls \U00050700", "ls \0",
        "coproc ls", "function f", "f() { ls; }", ">/dev/null ls", "ls >/dev/null>x",
    ],
)  # fmt: skip
def test_lexer_rejects_commands_that_are_not_plain(text: str) -> None:
    with pytest.raises(NotPlain):
        lex(text)


def test_lexer_rejects_too_many_parts_words_or_characters() -> None:
    for text in ("ls\n" * (MAX_PARTS + 1), "ls " + "a " * MAX_WORDS, "echo " + "a" * 17_000):
        with pytest.raises(NotPlain):
            lex(text)


def test_lexer_marks_only_unquoted_patterns_as_globs() -> None:
    (part,) = lex("p a* 'a*' a'*' 'a'* x[1] ?")

    assert [word for word in part.words if word.has_glob] == [
        Word("a*", True), Word("a*", True), Word("x[1]", True), Word("?", True),
    ]  # fmt: skip


def test_commands_with_astral_characters_ask(project: Project) -> None:
    gate = project.gate()
    corpus = [*range(0x10000, 0x110000, 1777), *range(0x50700, 0x50720), 0x2C700, 0x34E00]

    effects = {gate.decide([project.execute("{" + chr(point))]).effect for point in corpus}

    assert effects == {"ask"}


def test_lexer_stops_after_too_many_words() -> None:
    with pytest.raises(NotPlain, match="more than 512 words"):
        lex("a " * 600 + "$")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("  ls   -l\t a \n", "ls -l a"),
        ("echo  'a  b'  \"c  d\"", "echo 'a  b' \"c  d\""),
        ('echo  "a \\"  b"  c', 'echo "a \\"  b" c'),
        ("echo  $'it\\'s  x'  y", "echo $'it\\'s  x' y"),
        ("echo a\\  b", "echo a\\  b"),
        (" echo $(date  +%s)  x ", "echo $(date  +%s)  x"),
        ("cat  <<E\na  b\nE\n", "cat  <<E\na  b\nE"),
        ("echo  a # it's\necho 'b  c'", "echo  a # it's\necho 'b  c'"),
    ],
)
def test_with_single_spaces_shortens_only_spaces_between_words(command: str, expected: str) -> None:
    assert with_single_spaces(command) == expected


@pytest.mark.parametrize(
    ("command", "starts"),
    [
        ("sleep 5; gh run view", True),
        ("make && /bin/sleep 3", True),
        ('for i in 1 2; do curl "$URL"; sleep 5; done', True),
        ("ls\nsleep 2", True),
        ("(sleep 3)", True),
        ("echo sleep 5", False),
        ("echo 'a; sleep 5'", False),
        ("grep -r sleep src", False),
        ("cat <<E\nsleep 3\nE", False),
        ("sleepy 5", False),
        ("echo 'sleep", False),
    ],
)
def test_starts_program_finds_program_only_at_start_of_command(
    command: str, *, starts: bool
) -> None:
    assert starts_program(command, "sleep") == starts
