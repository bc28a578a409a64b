"""Which words of an instruction file import others."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dirge_py.context.instructions import imported_paths

MARKDOWN = st.text(alphabet="@a/.`~ \n\\>-#(", max_size=60)


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("@docs/style.md", ["docs/style.md"]),
        ("See @README and (@./a.md), then @b.txt.\n- @c.md", ["README", "./a.md", "b.txt", "c.md"]),
        ("@~/mine.md @/etc/passwd @../up.md", ["~/mine.md", "/etc/passwd", "../up.md"]),
        ("@a.md @a.md#part", ["a.md"]),
        (r"@with\ blank.md", ["with blank.md"]),
        ("me@example.org, a@b.md", []),
        ("`@a.md` ``x ` @b.md`` @c.md", ["c.md"]),
        ("a ` @b.md", ["b.md"]),
        ("`over\n@a.md` @b.md", ["b.md"]),
        ("```\n@a.md\n```\n@b.md", ["b.md"]),
        ("~~~~ sh\n@a.md\n~~~\n```\n@a.md\n~~~~\n@b.md", ["b.md"]),
        ("```inline``` @a.md", ["a.md"]),
        ("- item\n  ```py\n  @decorator\n  ```\n- @a.md", ["a.md"]),
        ("> ```\n> @a.md\n> ```\n> @b.md", ["b.md"]),
        ("```\n@a.md", []),
        ("`open\n\n@a.md `closed", ["a.md"]),
        ("@ @. @\0x", []),
    ],
)
def test_only_words_outside_of_code_import(text: str, paths: list[str]) -> None:
    assert imported_paths(text) == paths


@example("@\\\\ ")
@given(MARKDOWN)
def test_every_import_stands_in_the_text_behind_an_at_sign(text: str) -> None:
    for path in imported_paths(text):
        assert "@" + path.replace(" ", "\\ ") in text


@given(MARKDOWN)
def test_nothing_between_fences_is_imported(text: str) -> None:
    inside = re.sub(r"[`~]", "", text)

    assert imported_paths(f"````\n{inside}\n````\n@end") == ["end"]


def test_a_flood_of_backticks_and_at_signs_is_read_in_no_time() -> None:
    text = "".join("`" * (n % 300) + " @x" + str(n % 7) for n in range(3_000)) + "`" * 100_000

    assert len(imported_paths(text)) <= 7
