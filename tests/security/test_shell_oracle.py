"""The grammar compared with bash: both must see the same words."""

import os
import random
import shutil
import subprocess
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import pytest

from dirge_py.lib.shell_lexer import NotPlain, Part, lex
from dirge_py.permission.shell import read_structure, sees_the_same
from tests.security.sizes import count, size
from tests.support.requirements import lacking

Accepted = tuple[str, tuple[Part, ...]]
Calls = Counter[tuple[str, ...]]

# Every head of a line is a function that writes down what it was given, in one write; lines come
# from file descriptor 8, what they did goes to 9, each line's end marked by an empty record. A
# newline in a word would make bash write in two pieces, and the ends of a pipe write at once.
PRELUDE = """
unset -f command_not_found_handle
rec() { printf '%s\\0' "$#" "${@//$'\\n'/$'\\1'}" >&9; }
"""
LOOP = """
while IFS= read -r -u 8 -d '' line; do
  eval "$line" </dev/null >/dev/null 2>&1
  printf '0\\0' >&9
done
"""
PIECES = [
    *("p", "p ", "p -a", "q x", "a", "b=c", "--x", "-", "=", ",", ":", "@", "%", "^", "+", "."),
    *(" ", " ", " ", " ", " ", "\t", "\n", "\n", ";", "|", "||", "&&", "&", ";;", "|&", " && q "),
    *("'", '"', "'a b'", '"c d"', "''", '""', "'$x'", "'\\n'", "'\n'", '"\n"', "\\", "\\\n", "\\ "),
    *("$", "$x", "`", "{a,b}", "{", "}", "(", ")", "~", "/~", "*", "?", "[", "]", "[a-z]", "!"),
    *("2>&1", ">&2", ">/dev/null", "2> /dev/null", "&>/dev/null", "</dev/null", ">f", "<<x", "2"),
    *("#", "12", "\x0b", "\x0c", "\r", "\u00a0", "é", "if", "time", "[[", "0", "if ", "in "),
    " -n 1 ",
]  # fmt: skip
BATCH = 5_000


def random_command(choice: random.Random) -> str:
    start = choice.choice(["p ", "p ", "q ", ""])
    return start + "".join(choice.choices(PIECES, k=choice.randint(1, 7)))


def accepted_commands(seed: int, builtins: frozenset[str]) -> Iterator[Accepted]:
    choice = random.Random(seed)
    while True:
        text = random_command(choice)
        try:
            parts = lex(text)
        except NotPlain:
            continue
        heads = {part.argv[0] for part in parts}
        # A name with a slash is looked for as a file.
        if heads & builtins or any("/" in head for head in heads):
            continue
        if sees_the_same(text, parts):
            yield text, parts


def expected_calls(parts: tuple[Part, ...]) -> Calls:
    """The commands that bash starts if every one succeeds."""
    calls: Calls = Counter()
    is_run = True
    for part in parts:
        if part.joint != "|":
            is_run = part.joint != "||"
        if is_run:
            calls[part.argv] += 1
    return calls


def recorded_calls(record: Path) -> list[Calls]:
    """The commands that each line started."""
    text = record.read_text(errors="surrogateescape")
    fields = iter(text.replace("\1", "\n").split("\0")[:-1])
    lines: list[Calls] = [Counter()]
    for number in fields:
        words = tuple(next(fields) for _ in range(int(number)))
        if words:
            lines[-1][words] += 1
        else:
            lines.append(Counter())
    return lines[:-1]


def bash_calls(bash: str, batch: Sequence[Accepted], folder: Path) -> list[Calls]:
    cwd, lines, record, script = (folder / name for name in ("cwd", "lines", "record", "script"))
    cwd.mkdir(exist_ok=True)
    lines.write_text("".join(f"{text}\0" for text, _ in batch))
    record.write_text("")
    heads = {part.argv[0] for _, parts in batch for part in parts}
    recorders = (f'function {head} {{ rec {head} "$@"; }}\n' for head in sorted(heads))
    script.write_text(PRELUDE + "".join(recorders) + LOOP)
    with lines.open("rb") as read, record.open("ab") as written:
        descriptors = {8: read.fileno(), 9: written.fileno()}
        subprocess.run(
            [bash, "--norc", "--noprofile", "-c", 'exec 8<"$1" 9>>"$2"; . "$3"', "bash",
             f"/dev/fd/{descriptors[8]}", str(record), str(script)],
            cwd=cwd,
            env={"PATH": "/nonexistent"},
            pass_fds=[descriptors[8]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )  # fmt: skip
    return recorded_calls(record)


def differences(most: int, seed: int, folder: Path) -> list[str]:
    bash = shutil.which("bash") or lacking("bash")
    listing = subprocess.run(
        [bash, "-c", "compgen -b -k"], capture_output=True, text=True, check=True
    )
    builtins = frozenset((*listing.stdout.split(), "rec"))
    commands = accepted_commands(seed, builtins)

    def judge(number: int, batch: Sequence[Accepted]) -> list[str]:
        place = folder / str(number)
        place.mkdir()
        seen = bash_calls(bash, batch, place)
        assert len(seen) == len(batch)
        pairs = zip(batch, seen, strict=True)
        wrong = [text for (text, parts), calls in pairs if calls != expected_calls(parts)]
        wrong += [f"a file {name!r} was made" for name in os.listdir(place / "cwd")]
        shutil.rmtree(place)
        return wrong

    with ThreadPoolExecutor(2) as pool:
        # The next lines are thought up while bash reads the last ones.
        ahead: deque[Future[list[str]]] = deque()
        found: list[str] = []
        for number, start in enumerate(range(0, most, BATCH)):
            batch = list(islice(commands, min(BATCH, most - start)))
            ahead.append(pool.submit(judge, number, batch))
            while len(ahead) > 2:
                found += ahead.popleft().result()
        for rest in ahead:
            found += rest.result()
    return found


def test_lexer_and_bash_agree_on_words(tmp_path: Path) -> None:
    most = size(1_500, 1_000_000)

    found = differences(most, 7, tmp_path)

    count("argv oracle", most, len(found), "differ or made a file")
    assert found == []


STRUCTURES = [
    "if {0}; then {1}; fi", "if {0}; then {1}; elif {1}; then {0}; else {1}; fi", "! {0}",
    "for f in {2}; do {0}; done", "for g in {2} x\ndo\n{1}\n{0}\ndone", "{0} # {1}\n{1}",
    "for f in {2}; do if {0}; then {1}; fi; done", "{0} && {1}", "{0} | {1}", "{0}; {1}",
    "for f in {2}; do for g in {2}; do {0}; {1}; done; done", "# {0}\n{1}",
]  # fmt: skip
ARGUMENTS = [
    "a", "$f", '"$f"', "${g}x", "'$f'", '"a $g b"', "x/$f", '"$g$f"', "'a b'", "*", "#", "!", "a#b",
    "[", "]", "=", "do", "fi", "-$f", "$x", "~", "$", '"', "{", "\\",
]  # fmt: skip
VALUES = ["a", "a b", "'a b'", "x1 y2 z3", '"c d" e', "'*'", "- --", "$f", "do", "a;b", "''"]


def random_structure(choice: random.Random) -> str:
    def command() -> str:
        words = " ".join(choice.choices(ARGUMENTS, k=choice.randint(0, 3)))
        return f"{choice.choice('pq')} {words}".strip()

    text = command()
    for _ in range(choice.randint(1, 3)):
        text = choice.choice(STRUCTURES).format(text, command(), choice.choice(VALUES))
    return text


def accepted_structures(seed: int) -> Iterator[Accepted]:
    choice = random.Random(seed)
    while True:
        text = random_structure(choice)
        if parts := read_structure(text, {}):
            yield text, parts


def test_structures_run_no_other_commands_in_bash(tmp_path: Path) -> None:
    most = size(1_500, 200_000)
    bash = shutil.which("bash") or lacking("bash")
    batch = list(islice(accepted_structures(3), most))

    seen = bash_calls(bash, batch, tmp_path)

    assert len(seen) == len(batch)
    wrong = [
        text
        for (text, parts), calls in zip(batch, seen, strict=True)
        if not set(calls) <= {part.argv for part in parts}
    ]
    count("structure oracle", most, len(wrong), "run something else")
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("p a && q b", [("p", "a"), ("q", "b")]),
        ("p 'a b' \"c\"", [("p", "a b", "c")]),
        ("p {a,b}", [("p", "a", "b")]),
        ("p \\\nx\\ y", [("p", "x y")]),
        ("p a | q b; p", [("p", "a"), ("q", "b"), ("p",)]),
        ("p '", []),
    ],
)
def test_oracle_records_what_bash_did(
    tmp_path: Path, text: str, seen: list[tuple[str, ...]]
) -> None:
    bash = shutil.which("bash") or lacking("bash")
    part = (*lex("p"), *lex("q"))

    assert bash_calls(bash, [(text, part), ("p", part)], tmp_path) == [
        Counter(seen), Counter([("p",)]),
    ]  # fmt: skip


def test_oracle_of_bash_notices_a_difference(tmp_path: Path) -> None:
    parts = lex("p a && q b | r c || s d")

    assert expected_calls(parts) == Counter([("p", "a"), ("q", "b"), ("r", "c")])
