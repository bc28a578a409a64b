"""What the grammar accepts is run by the real bash, which must see the same words."""

import os
import random
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from dirge_py.permission.syntax_tree import sees_the_same
from dirge_py.permission.words import NotPlain, Part, lex

# Every word that bash does not know as a program or builtin ends up here, with its arguments.
RECORDER = """
command_not_found_handle() { local IFS=; printf '%s\\0' "$#" "$@" >> "$RECORD/$BASHPID"; }
p() { command_not_found_handle p "$@"; }
"""
PIECES = [
    *("p", "p ", "p -a", "q x", "a", "b=c", "--x", "-", "=", ",", ":", "@", "%", "^", "+", "."),
    *(" ", " ", " ", "\t", "\n", "\n", ";", "|", "||", "&&", "&", ";;", "|&"),
    *("'", '"', "'a b'", '"c d"', "''", '""', "'$x'", "'\\n'", "'\n'", '"\n"', "\\", "\\\n", "\\ "),
    *(
        "$",
        "$x",
        "`",
        "{a,b}",
        "{",
        "}",
        "(",
        ")",
        "~",
        "/~",
        "*",
        "?",
        "[",
        "]",
        "[a-z]",
        "!",
        "#",
    ),
    *(
        "2>&1",
        ">&2",
        ">/dev/null",
        "2> /dev/null",
        "&>/dev/null",
        "</dev/null",
        ">f",
        "<<x",
        "2",
        "12",
    ),
    *("\x0b", "\x0c", "\r", "\u00a0", "é", "if", "time", "[[", "0", "if ", "in "),
]


def random_command(choice: random.Random) -> str:
    start = choice.choice(["p ", "p ", "q ", ""])
    return start + "".join(choice.choice(PIECES) for _ in range(choice.randint(1, 9)))


def accepted_commands(
    seed: int, builtins: frozenset[str]
) -> Iterator[tuple[str, tuple[Part, ...]]]:
    choice = random.Random(seed)
    while True:
        text = random_command(choice)
        try:
            parts = lex(text)
        except NotPlain:
            continue
        heads = {part.argv[0] for part in parts}
        if sees_the_same(text, parts) and not heads & builtins and not any("/" in h for h in heads):
            yield text, parts


def expected_calls(parts: tuple[Part, ...]) -> Counter[tuple[str, ...]]:
    """The commands bash starts when every one of them succeeds."""
    calls: Counter[tuple[str, ...]] = Counter()
    is_run = True
    for part in parts:
        if part.joint != "|":
            is_run = part.joint != "||"
        if is_run:
            calls[part.argv] += 1
    return calls


def recorded_calls(record: Path) -> Counter[tuple[str, ...]]:
    calls: Counter[tuple[str, ...]] = Counter()
    # One file for each process: what the ends of a pipe write at once would run together.
    for file in record.iterdir():
        fields = iter(file.read_text(errors="surrogateescape").split("\0")[:-1])
        calls.update(tuple(next(fields) for _ in range(int(count))) for count in fields)
        file.unlink()
    return calls


def differences(count: int, seed: int, folder: Path) -> list[str]:
    bash = shutil.which("bash") or pytest.skip("needs bash")
    names = subprocess.run(
        [bash, "-c", "compgen -b -k"], capture_output=True, text=True, check=True
    )
    builtins = frozenset(names.stdout.split()) - {"p"}
    prelude, record, cwd = folder / "prelude", folder / "record", folder / "cwd"
    prelude.write_text(RECORDER)
    cwd.mkdir()
    record.mkdir()
    environment = {"BASH_ENV": str(prelude), "RECORD": str(record), "PATH": "/nonexistent"}
    wrong: list[str] = []
    commands = accepted_commands(seed, builtins)
    for _ in range(count):
        text, parts = next(commands)
        subprocess.run(
            [bash, "--norc", "--noprofile", "-c", "--", text],
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        if recorded_calls(record) != expected_calls(parts) or os.listdir(cwd):
            wrong.append(text)
    return wrong


def test_bash_sees_the_words_that_the_lexer_saw(tmp_path: Path) -> None:
    assert differences(200, 7, tmp_path) == []


def test_oracle_itself_notices_a_difference(tmp_path: Path) -> None:
    parts = lex("p a && q b | r c || s d")

    assert expected_calls(parts) == Counter([("p", "a"), ("q", "b"), ("r", "c")])
