"""Images from the clipboard, and files dropped on the terminal."""

import stat
import struct
import zlib
from pathlib import Path

import pytest

from dirge_py.types.messages import ImageBlock
from dirge_py.ui.prompt.placeholders import Pastes, PromptImages, as_mention
from dirge_py.ui.terminal.clipboard import read_clipboard
from tests.support.app_driver import AppDriver, running_app
from tests.support.project import ScriptedProject


def png(width: int = 640, height: int = 480) -> bytes:
    def chunk(name: bytes, content: bytes) -> bytes:
        crc = zlib.crc32(name + content)
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", crc)

    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IEND", b"")


class Desktop:
    """A clipboard as desktop programs provide it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        folder.mkdir()
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        monkeypatch.delenv("DISPLAY", raising=False)
        monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)

    def has(self, program: str, script: str, content: bytes = b"") -> None:
        (self.folder / "content").write_bytes(content)
        path = self.folder / program
        path.write_text(f"#!/bin/sh\ncd {self.folder}\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def holds_image(self, content: bytes) -> None:
        self.has(
            "wl-paste",
            'case "$*" in *--list-types*) echo text/plain; echo image/png;;'
            " *image/png*) cat content;; *) exit 1;; esac",
            content,
        )


@pytest.fixture
def desktop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desktop:
    return Desktop(tmp_path / "desktop", monkeypatch)


def images(driver: AppDriver) -> list[ImageBlock]:
    blocks = [b for m in driver.conversation.messages if m.role == "user" for b in m.content]
    return [block for block in blocks if isinstance(block, ImageBlock)]


async def test_clipboard_image_is_sent_with_prompt(
    project: ScriptedProject, desktop: Desktop
) -> None:
    desktop.holds_image(png())
    async with running_app(project) as driver:
        await driver.type("look ")
        await driver.pilot.press("ctrl+v")
        await driver.until(lambda: driver.app.composer.text == "look [image 640x480 png] ")
        await driver.pilot.press("enter")
        await driver.until(lambda: images(driver))

        assert driver.sent[0].startswith("look [image 640x480 png]")
        [stored] = project.state_dir.glob(f"sessions/*/*/assets/{images(driver)[0].asset_id}*")
        assert stored.read_bytes() == png()
        await driver.idle()
        await driver.pilot.press("up", "enter")
        await driver.until(lambda: len(images(driver)) == 2)


async def test_backspace_deletes_whole_image_placeholder(
    project: ScriptedProject, desktop: Desktop
) -> None:
    desktop.holds_image(png())
    async with running_app(project) as driver:
        await driver.pilot.press("alt+v")
        await driver.until(lambda: "[image" in driver.app.composer.text)
        await driver.pilot.press("backspace", "backspace")

        assert driver.app.composer.text == ""


async def test_clipboard_without_image_pastes_text(
    project: ScriptedProject, desktop: Desktop
) -> None:
    desktop.has("xclip", 'case "$*" in *TARGETS*) echo UTF8_STRING;; *) printf "some words";; esac')
    async with running_app(project) as driver:
        await driver.pilot.press("ctrl+v")
        await driver.until(lambda: driver.app.composer.text == "some words")


async def test_missing_clipboard_program_is_named(
    project: ScriptedProject, desktop: Desktop
) -> None:
    async with running_app(project) as driver:
        await driver.pilot.press("ctrl+v")
        await driver.until(lambda: "wl-clipboard" in driver.screen)


async def test_image_paste_is_refused_for_model_without_vision(
    project: ScriptedProject, desktop: Desktop
) -> None:
    desktop.holds_image(png())
    async with running_app(project) as driver:
        assert (
            driver.conversation.settings.sees_pictures,
            driver.conversation.settings.set_model("fake/unheard-of"),
        ) == (
            True,
            "fake/unheard-of",
        )
        assert driver.conversation.settings.sees_pictures is None
        driver.conversation.settings.set_model("fake/o3-mini")
        await driver.pilot.press("ctrl+v")
        await driver.until(lambda: "cannot read images" in driver.text)

        assert driver.app.composer.text == ""


def test_clipboard_data_that_is_no_image_is_ignored(desktop: Desktop) -> None:
    desktop.holds_image(b"not a picture")
    assert not read_clipboard().image
    desktop.has("xclip", 'case "$*" in *TARGETS*) echo image/png;; *) cat content;; esac', png())
    assert read_clipboard({"DISPLAY": ":0"}).image == png()


def test_dropped_file_becomes_mention(tmp_path: Path) -> None:
    plain, blanks = tmp_path / "a.png", tmp_path / "two words.JPG"
    for path in (plain, blanks):
        path.write_bytes(png())

    assert as_mention(f"{plain}\n") == f"@{plain} "
    assert as_mention(f"'{blanks}'") == f'@"{blanks}" '
    assert as_mention(str(blanks).replace(" ", "\\ ")) == f'@"{blanks}" '
    assert as_mention(f"file://{str(blanks).replace(' ', '%20')}") == f'@"{blanks}" '
    for other in (f"{plain} {plain}", "a.png", str(tmp_path / "gone.png"), f"{plain}\n{plain}", ""):
        assert as_mention(other) == other


def test_images_of_same_size_get_distinct_names() -> None:
    pictures = PromptImages(Pastes())
    one, two = pictures.add(png()), pictures.add(png() + b"x")

    assert (one, two) == ("[image 640x480 png]", "[image 640x480 png #2]")
    assert pictures.add(png()) == one
    assert list(pictures.in_text(f"{two} then {one}")) == [two, one]
