"""The committed pictures of README.md and docs/ show what the program shows."""

import re
import shutil

import pytest

from tests.house.source import ROOT
from tests.ui.pictures import FOLDER, SCENES, play, to_svg

_TEXT = re.compile(r'<text x="([\d.]+)" y="(\d+)"[^>]*>([^<]*)')
_VERSION = re.compile(r"\bdirge \d\S*")


def texts(svg: str) -> list[tuple[str, str, str]]:
    """The texts of a picture with their places, without the version of dirge."""
    return _TEXT.findall(_VERSION.sub("dirge VERSION", svg))


@pytest.mark.parametrize("name", SCENES)
async def test_picture_has_the_texts_of_the_program(name: str) -> None:
    if not shutil.which("make"):
        pytest.skip("needs make")
    svg = to_svg(await play(SCENES[name]), name)
    assert texts((FOLDER / f"{name}.svg").read_text()) == texts(svg), "run `make pictures`"


def test_every_picture_is_made_small_and_shown_on_a_page() -> None:
    pages = "".join(page.read_text() for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
    pictures = sorted(FOLDER.iterdir())
    assert [picture.name for picture in pictures] == sorted(f"{name}.svg" for name in SCENES)
    for picture in pictures:
        assert f"pictures/{picture.name}" in pages
        assert picture.stat().st_size < 60_000
        assert not re.search(r"url\(|href|@import|/tmp/", picture.read_text())
