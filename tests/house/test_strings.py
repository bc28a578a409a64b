"""What people read is plain, current American English: the program's sentences, the docs, the help.

`make strings` prints the sentences for a reader.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.source import PACKAGE, ROOT, called, modules, name_of, tree_of, walked
from tests.house.strings import sentences, string_of

PAGES = sorted(
    [
        *(
            ROOT / name
            for name in ("README.md", "AGENTS.md", "CHANGELOG.md", "config.example.toml")
        ),
        *(ROOT / "docs").rglob("*.md"),
        PACKAGE / "cli" / "help.txt",
        PACKAGE / "config" / "starter.toml",
    ]
)
BANNED = {
    r"carr(y|ies|ied|ying) out": "run, do",
    r"carr(y|ies|ied|ying) on": "continue",
    r"lack(s|ed|ing)?": "is missing, has no",
    r"(go|goes|went|going) on(?! to)": "continue",
    r"(is|are|was|were) told of": "sees",
    r"mend(s|ed|ing)?": "fix",
    r"whoever": "the user who",
    r"become(s)? of": "happen to",
    r"rather not": "cancel",
    r"nobody answered": "no response",
    r"shut in": "sandboxed",
    r"unasked": "without asking",
    r"brings? along": "contains",
    r"in force": "in effect, in use",
    r"shall": "will, should",
    r"hence|thereby|whereby|upon|whilst|amongst": "so, on, while, among",
    r"(out|in)side of": "outside, inside",
    r"blanks": "spaces",
    r"pictures?": "image",
    r"(is|are) no (?!longer|more|such)(\w+)": "isn't a",
    r"(colour|behaviour|favour|neighbour|honour|grey|catalogue|licence|artefact)\w*": "American",
    r"\w*(summaris|recognis|organis|initialis|normalis)\w*": "American: -ize",
}
"""Expressions that no tool of today uses, with what to write instead."""

_PATTERNS = {words: re.compile(rf"\b({words})\b", re.IGNORECASE) for words in BANNED}
_ALLOWED = re.compile(
    r"(there|that alone) (is|are) no \w|enforces this picture|Go on\."
    r"|ignore-leading-blanks|colour=\?",
    re.IGNORECASE,
)
_CODE = re.compile(r"`[^`]*`|<!--.*?-->|\{[^}]*\}|\]\([^)]*\)")
_ERRORS = {
    *("ConfigError", "DirgeError", "FileError", "NoProvider", "ProviderError", "SessionError"),
    *("ToolError", "UsageError"),
}


def _banned_in(text: str) -> Iterator[str]:
    plain = _ALLOWED.sub("", _CODE.sub("", text))
    for words, pattern in _PATTERNS.items():
        for match in pattern.finditer(plain):
            yield f"{match[0]!r} → {BANNED[words]}"


def _errors() -> Iterator[tuple[str, ast.Call]]:
    for module in modules():
        for node in walked(tree_of(module)):
            if isinstance(node, ast.Call) and called(node) in _ERRORS:
                yield f"{name_of(module)}:{node.lineno}", node


def test_program_uses_no_banned_expression() -> None:
    found = [
        f"{name_of(module)}:{line}: {words}"
        for module in modules()
        for line, text in sentences(module)
        for words in _banned_in(text)
    ]
    assert found == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_page_uses_no_banned_expression(path: Path) -> None:
    fence = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
    text = fence.sub("", path.read_text(encoding="utf-8"))
    assert list(_banned_in(text)) == []


def test_program_writes_cannot_in_full() -> None:
    """Messages and help; the docs, which are longer, may contract it."""
    texts = [
        *((name_of(m), text) for m in modules() for _, text in sentences(m)),
        *((page.name, page.read_text("utf-8")) for page in PAGES if page.is_relative_to(PACKAGE)),
    ]
    assert [(place, text) for place, text in texts if re.search(r"\bcan['’]t\b", text, re.I)] == []


def test_error_message_ends_like_a_sentence() -> None:
    messages = [(place, string_of(call.args[0])) for place, call in _errors() if call.args]
    assert len(messages) > 300
    # `it is too large` and the like are put into other messages.
    assert [
        (place, text)
        for place, text in messages
        if " " in text and not re.search(r"[.?…}`]$|^it ", text)
    ] == []


def test_hint_of_an_error_ends_like_a_sentence() -> None:
    hints = [
        (place, string_of(keyword.value))
        for place, call in _errors()
        for keyword in call.keywords
        if keyword.arg == "hint"
    ]
    assert len(hints) > 200
    # An example comes behind a colon, a usage line begins with its command.
    assert [
        (place, text)
        for place, text in hints
        if re.match(r"[A-Z]", text) and ": " not in text and not re.search(r"[.?…}]$", text)
    ] == []


def test_no_sentence_shouts() -> None:
    found = [
        (name_of(module), text)
        for module in modules()
        for _, text in sentences(module)
        if re.search(r"\w!(\s|$)", _CODE.sub("", text))
    ]
    assert found == []
