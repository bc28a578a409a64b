"""Scripts of mistakes that weak models make, each with the expected result.

Examples are malformed JSON, loops, calls written as text, and empty answers. Every script is
generated from a seed. `SLIPS` damages the JSON of a call so that one reading remains.
"""

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from dirge_py.providers.scripted import Reply

FILES: Mapping[str, str] = {
    "a.txt": "".join(f"line {number} of alpha\n" for number in range(1, 31)),
    "b.txt": "beta\n",
    "app.py": 'NAME = "app"\n\n\ndef add(a, b):\n    return a - b\n',
}
"""The files of the project at the start of each script."""

Expectation = Literal["repaired", "refused", "noticed", "told", "survives"]


@dataclass(frozen=True, kw_only=True)
class WeakModel:
    """A scripted model with one fault, and what has to become of it."""

    kind: str
    """The row of the table."""
    name: str
    """The fault."""
    replies: Sequence[Reply]
    """Its first answers; after them it says that it is done."""
    again: Callable[[int], Reply] | None = None
    """Its further answers by number, instead: it never ends by itself."""
    expected: Expectation
    """`repaired`: the call runs as meant. `refused`: it does not run. `noticed`: the loop ends.
    `told`: the model learns of it, and the run isn't done in silence. `survives`: only that."""
    files: Mapping[str, str | None] = field(default_factory=dict)
    """The files that differ from `FILES` afterwards; None: there is none."""
    arguments: Mapping[str, Any] | None = None
    """What a repaired call is given, at least; None: it doesn't matter."""
    period: int = 1
    """How many calls one round of a loop has."""


@dataclass(frozen=True)
class _Meant:
    tool: str
    arguments: Mapping[str, Any]
    files: Mapping[str, str | None]


def _meant(rng: random.Random, *, only: str = "") -> _Meant:
    """Return a call and what it changes. Its texts have quotes, braces and line ends."""
    text = "".join(rng.choice(_PIECES) for _ in range(rng.randint(1, 6)))
    match only or rng.choice(("write", "edit", "bash", "read", "grep")):
        case "write":
            path = f"new_{rng.randint(1, 99)}.txt"
            return _Meant("write", {"path": path, "content": text}, {path: text})
        case "edit":
            old, new = "return a - b", f"return a + b  # {text.splitlines()[0] if text else ''}"
            arguments = {"path": "app.py", "old_text": old, "new_text": new}
            return _Meant("edit", arguments, {"app.py": FILES["app.py"].replace(old, new)})
        case "bash":
            path = f"made_{rng.randint(1, 99)}"
            words = rng.choice(("x", "it's", '"q"', "{a,b}"))
            command = f"printf %s {json.dumps(words)} > {path}"
            return _Meant("bash", {"command": command, "timeout": 20}, {path: words})
        case "read":
            arguments = {"path": "a.txt", "offset": rng.randint(1, 9), "limit": rng.randint(1, 9)}
            return _Meant("read", arguments, {})
        case _:
            pattern = rng.choice(("alpha", "a - b", "l[i]ne 3"))
            return _Meant("grep", {"pattern": pattern, "path": "."}, {})


_PIECES = (
    "words ",
    "it's ",
    '"quoted" ',
    "{x: 1}, ",
    "[1]\n",
    "a, b\n",
    "tab\there ",
    "ü→ ",
    "c:/d ",
)
_END = Reply(text="That is done.")


# -- slips of JSON


def _single_quotes(text: str, _: random.Random) -> str:
    def quoted(match: re.Match[str]) -> str:
        inner = match[0][1:-1].replace('\\"', '"').replace("'", "\\'")
        return f"'{inner}'"

    return re.sub(r'"(?:[^"\\]|\\.)*"', quoted, text)


def _bare_keys(text: str, _: random.Random) -> str:
    return re.sub(r'(?<=[{,])(\s*)"(\w+)"(?=\s*:)', r"\1\2", text)


def _smart_quotes(text: str, _: random.Random) -> str:
    left, right = "\N{LEFT DOUBLE QUOTATION MARK}", "\N{RIGHT DOUBLE QUOTATION MARK}"
    return re.sub(r'"((?:[^"\\]|\\.)*)"', rf"{left}\1{right}", text)


SLIPS: Mapping[str, Callable[[str, random.Random], str]] = {
    "a trailing comma": lambda text, _: text[:-1] + ",}",
    "single quotes": _single_quotes,
    "keys without quotes": _bare_keys,
    "a code fence": lambda text, _: f"```json\n{text}\n```",
    "an extra brace": lambda text, _: text + "}",
    "a byte order mark": lambda text, _: "\ufeff" + text,
    "a comment": lambda text, _: text[:-1] + "\n// the arguments\n}",
    "a block comment": lambda text, _: "{/* arguments */" + text[1:],
    "surrounding prose": lambda text, _: f"Here are the arguments:\n{text}",
    "repeated object": lambda text, _: text + text,
    "a preceding empty object": lambda text, _: "{}" + text,
    "an object inside a list": lambda text, _: f"[{text}]",
    "Python literals": lambda text, _: text[:-1] + ', "reason": None}',
    "an escaped apostrophe": lambda text, _: (
        text.replace("'", "\\'") if "'" in text else text[:-1] + ', "reason": "it\\\'s"}'
    ),
    "smart quotes": _smart_quotes,
    "raw line breaks": lambda text, _: text.replace("\\n", "\n"),
    "JSON encoded twice": lambda text, _: json.dumps(text),
    "a wrapper": lambda text, _: f'{{"arguments": {text}}}',
}


def slips(rng: random.Random, count: int) -> Iterator[WeakModel]:
    """Yield calls whose JSON has one slip and one reading."""
    names = list(SLIPS)
    for number in range(count):
        name, meant = names[number % len(names)], _meant(rng)
        text = SLIPS[name](json.dumps(meant.arguments, ensure_ascii=False), rng)
        yield WeakModel(
            kind="slips of JSON",
            name=f"{name}: {meant.tool}",
            replies=(Reply(calls=[(meant.tool, text)]), _END),
            expected="repaired",
            files=meant.files,
            arguments=meant.arguments,
        )


# -- types and names


def _other_name(meant: _Meant, rng: random.Random) -> Mapping[str, Any]:
    others = {
        "path": ("file_path", "filename", "filePath"),
        "command": ("cmd", "command_line"),
        "content": ("contents", "file_text"),
        "old_text": ("old_string", "oldString"),
        "new_text": ("new_string", "newString"),
        "pattern": ("query", "regex"),
    }
    return {
        rng.choice(others[name]) if name in others else name: value
        for name, value in meant.arguments.items()
    }


_TYPES: Mapping[str, Callable[[_Meant, random.Random], Mapping[str, Any]]] = {
    "other names": _other_name,
    "numbers as text": lambda meant, _: {
        name: str(value) if isinstance(value, int) else value
        for name, value in meant.arguments.items()
    },
    "an extra reason": lambda meant, _: {**meant.arguments, "explanation": "because"},
    "an extra thought": lambda meant, _: {**meant.arguments, "thought": "so"},
    "null for an optional field": lambda meant, _: {
        **meant.arguments,
        **({"workdir": None} if meant.tool == "bash" else {}),
    },
}


def types(rng: random.Random, count: int) -> Iterator[WeakModel]:
    """Yield calls with other names and types that mean one thing."""
    names = list(_TYPES)
    for number in range(count):
        name, meant = names[number % len(names)], _meant(rng)
        yield WeakModel(
            kind="types and names",
            name=f"{name}: {meant.tool}",
            replies=(Reply(calls=[(meant.tool, _TYPES[name](meant, rng))]), _END),
            expected="repaired",
            files=meant.files,
            arguments=meant.arguments,
        )


# -- properties that carry meaning, arguments cut off, two readings

_MEANINGS: Sequence[tuple[str, str, Any]] = (
    ("write", "overwrite", False),
    ("write", "encoding", "utf-16"),
    ("write", "position", "end"),
    ("bash", "env", {"A": "1"}),
    ("bash", "host", "staging"),
    ("bash", "dry_run", "true"),
    ("bash", "dry_run", True),
    ("bash", "stdin_file", "a.txt"),
    ("edit", "count", 0),
    ("edit", "occurrence", "last"),
    ("edit", "position", "before"),
    ("edit", "dry_run", True),
)


def meanings(rng: random.Random, count: int) -> Iterator[WeakModel]:
    """Yield changing calls with a property that the tool does not have and that matters."""
    for number in range(count):
        tool, name, value = _MEANINGS[number % len(_MEANINGS)]
        meant = _meant(rng, only=tool)
        yield WeakModel(
            kind="properties with a meaning",
            name=f"{tool} {name}={value!r}",
            replies=(Reply(calls=[(tool, {**meant.arguments, name: value})]), _END),
            expected="refused",
        )


def cuts(rng: random.Random, count: int) -> Iterator[WeakModel]:
    """Yield changing calls whose arguments break off, and ones with two readings."""
    for number in range(count):
        meant = _meant(rng, only=rng.choice(("write", "edit", "bash")))
        text = json.dumps(meant.arguments, ensure_ascii=False)
        if number % 3:
            at, name = rng.randint(len(text) // 2, len(text) - 2), "cut off"
            text = text[:at]
        else:
            other = _meant(rng, only=meant.tool)
            text, name = text + json.dumps({**other.arguments, "path": "other.txt"}), "two objects"
        yield WeakModel(
            kind="cut off or two readings",
            name=f"{name}: {meant.tool}",
            replies=(Reply(calls=[(meant.tool, text)]), _END),
            expected="refused",
        )


# -- loops


def _cycle(calls: Sequence[tuple[str, Any]]) -> Callable[[int], Reply]:
    return lambda number: Reply(calls=[calls[number % len(calls)]])


def _reads(count: int) -> list[tuple[str, Any]]:
    return [
        ("read", {"path": "a.txt", "offset": 1 + 3 * each, "limit": 2}) for each in range(count)
    ]


def _failing_edit(number: int) -> Reply:
    edit = {"path": "app.py", "old_text": f"return {number} -- b", "new_text": "x"}
    return Reply(calls=[("read", {"path": "app.py"}) if number % 2 == 0 else ("edit", edit)])


def _cut_write(number: int) -> Reply:
    text = '{"path": "big.txt", "content": "' + "words and words " * (20 + 7 * number % 50)
    return Reply(calls=[("write", text)], stop_reason="length")


_LOOPS: Mapping[str, tuple[int, Callable[[random.Random], Callable[[int], Reply]]]] = {
    "the same read": (1, lambda _: _cycle(_reads(1))),
    "two alternating reads": (2, lambda _: _cycle(_reads(2))),
    "three alternating reads": (3, lambda _: _cycle(_reads(3))),
    "four alternating reads": (4, lambda _: _cycle(_reads(4))),
    "five alternating reads": (5, lambda _: _cycle(_reads(5))),
    "six alternating reads": (6, lambda _: _cycle(_reads(6))),
    "the same failing command": (1, lambda _: _cycle([("bash", {"command": "cat missing"})])),
    "a command with different spaces": (
        1,
        lambda rng: (
            lambda number: Reply(
                calls=[
                    ("bash", {"command": f"cat{' ' * (1 + number % 3)}b.txt{' ' * (number % 4)}"})
                ]
            )
        ),
    ),
    "read, then an edit that fails": (2, lambda _: _failing_edit),
    "a write truncated again and again": (1, lambda _: _cut_write),
    "arguments that are always wrong": (
        1,
        lambda _: lambda number: Reply(calls=[("read", {"paths": [f"x{number}"], "n": number})]),
    ),
    "the same unknown tool": (
        1,
        lambda _: lambda number: Reply(calls=[("open_browser", {"url": f"http://x/{number}"})]),
    ),
    "different unknown tools": (
        1,
        lambda _: lambda number: Reply(calls=[(f"helper_{number}", {})]),
    ),
    "commands that always fail": (
        1,
        lambda _: lambda number: Reply(calls=[("bash", {"command": f"cat missing-{number}"})]),
    ),
    "offsets past the end": (
        1,
        lambda _: (
            lambda number: Reply(
                calls=[("read", {"path": "b.txt", "offset": 100 + 10 * number, "limit": 10})]
            )
        ),
    ),
    "the same search": (1, lambda _: _cycle([("grep", {"pattern": "nothing at all"})])),
}


def loops(rng: random.Random, count: int) -> Iterator[WeakModel]:
    """Yield models that go round and round."""
    names = list(_LOOPS)
    for number in range(count):
        name = names[number % len(names)]
        period, make = _LOOPS[name]
        yield WeakModel(
            kind="loops",
            name=name,
            replies=(),
            again=make(rng),
            expected="noticed",
            period=period,
        )


# -- calls as text, and silence


def _as_text(tool: str, arguments: Mapping[str, Any]) -> Mapping[str, str]:
    body = json.dumps(arguments)
    call = json.dumps({"name": tool, "arguments": arguments})
    members = "".join(f"<{name}>{value}</{name}>" for name, value in arguments.items())
    named = "".join(
        f'<parameter name="{name}">{value}</parameter>' for name, value in arguments.items()
    )
    begin, sep, end = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"
    return {
        "XML": f"<{tool}>{members}</{tool}>",
        "a fence": f"```json\n{call}\n```",
        "<tool_call>": f"<tool_call>\n{call}\n</tool_call>",
        "function=": f"<function={tool}>{body}</function>",
        "<invoke>": f'<function_calls><invoke name="{tool}">{named}</invoke></function_calls>',
        "DSML": f"<｜tool▁calls▁begin｜>{begin}function{sep}{tool}\n```json\n{body}\n```{end}",
        "Harmony": f"<|channel|>commentary to=functions.{tool} <|constrain|>json"
        f"<|message|>{body}<|call|>",
        "bare JSON": call,
    }


def texts(rng: random.Random, count: int) -> Iterator[WeakModel]:
    """Yield answers that are a call written as text, always the same way."""
    for number in range(count):
        meant = _meant(rng, only=rng.choice(("write", "bash", "read")))
        written = _as_text(meant.tool, meant.arguments)
        name = list(written)[number % len(written)]
        before = rng.choice(("", "I will look.\n\n", "Let me do that now:\n"))
        yield WeakModel(
            kind="calls as text",
            name=f"{name}: {meant.tool}",
            replies=(),
            again=lambda _, text=before + written[name]: Reply(text=text),
            expected="told",
        )


def silences(rng: random.Random, count: int) -> Iterator[WeakModel]:
    """Yield models that say nothing."""
    silent = (Reply(), Reply(text=" \n "), Reply(thinking="I have to think."), Reply(text="\u200b"))
    for number in range(count):
        reply = silent[number % len(silent)]
        yield WeakModel(
            kind="empty answers",
            name=("nothing", "blanks", "thinking only", "an invisible character")[number % 4],
            replies=(),
            again=lambda _, reply=reply: reply,
            expected="told",
        )


# -- everything at once


def mixtures(rng: random.Random, count: int) -> Iterator[WeakModel]:
    """Yield models that alternate every fault, and end in the end."""
    for _ in range(count):
        makers = (slips, types, meanings, cuts)
        made = [next(rng.choice(makers)(rng, 1)) for _ in range(rng.randint(3, 8))]
        replies = [each.replies[0] for each in made]
        yield WeakModel(
            kind="every fault in turn",
            name=f"{len(replies)} faults",
            replies=(*replies, _END),
            expected="survives",
        )


SHARES = (
    (slips, 0.3),
    (types, 0.12),
    (meanings, 0.1),
    (cuts, 0.1),
    (loops, 0.13),
    (texts, 0.1),
    (silences, 0.05),
    (mixtures, 0.1),
)


def weak_models(count: int, seed: int = 1) -> list[WeakModel]:
    """Return `count` scripts, the same for the same seed."""
    rng = random.Random(seed)
    return [model for make, share in SHARES for model in make(rng, round(count * share))]
