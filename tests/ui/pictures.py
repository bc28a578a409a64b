"""Makes the pictures of README.md and docs/: `make pictures` (`python -m tests.ui.pictures`).

A scene is the real terminal UI in a real project; only the model is a script.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from unittest import mock
from xml.sax.saxutils import escape

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from dirge_py.permission.rules import Mode
from dirge_py.providers.scripted import Reply
from dirge_py.session.store import Store
from dirge_py.types.messages import Usage
from dirge_py.ui import app
from dirge_py.ui.options import UiSettings
from dirge_py.ui.transcript import tool_block
from tests.house.source import ROOT
from tests.support.app_driver import AppDriver, running_app
from tests.support.git_repository import new_repository
from tests.support.project import ScriptedProject
from tests.support.stored_sessions import exchange, record

FOLDER = ROOT / "docs" / "pictures"
WIDTH = 100
USAGE = Usage(input=12_300, output=420, cache_read=9_000)
CONFIG = """\
[providers.anthropic]
type = "anthropic"
model = "claude-sonnet-5"
base_url = "http://127.0.0.1:9"
[plan]
sandbox = "off"
"""
SUM = """\
    sum = 0
    for item in items:
        sum += item["price"]
    return sum
"""
BETTER_SUM = '    return sum(item["price"] * item["count"] for item in items)\n'
RECEIPT = """\
    lines = [f"{i['name']:<20}{i['price']:>8.2f}" for i in items]
"""
BETTER_RECEIPT = RECEIPT.replace("{i['price']", "{i['count']:>3} × {i['price']")
SHOP = f"""\
def total(items):
{SUM}

def receipt(items):
{RECEIPT}\
    lines.append(f"{{'total':<20}}{{total(items):>8.2f}}")
    return "\\n".join(lines)
"""
MAKEFILE = """\
test:
	@echo 'tests/test_cart.py ......'
	@until rm go 2>/dev/null; do sleep 0.01; done
	@echo '6 passed'
"""
PLAN = """\
## Name
Discount codes

## Steps
1. Add `discount(code, amount)`: `SUMMER10` takes 10 %, an unknown code raises `ValueError`.
2. `total(items, code="")` applies it once, before rounding.
3. Test both, and a code in lower case.

## Verify
```sh
pytest -q
```
"""
SESSIONS = (
    ("Add a currency to each price", "currency", 170, 2, "All 41 tests pass."),
    ("Move the receipt into a template", "main", 75, 1, "The receipt is in receipt.txt now."),
    ("Why is CI red since Friday?", "fix-ci", 26, 4, "pytest 9 drops that hook; pinned."),
    ("Round prices half to even", "rounding", 3, 3, "Both totals round alike."),
)
"""Title, git branch, age in hours, prompts and last answer of earlier sessions."""
REQUEST = "The total ignores how many of an item are bought. Fix it."


class Shop(ScriptedProject):
    """A small git project in `~/shop`, and the settings of a usual provider."""

    def __init__(self, base: Path) -> None:
        super().__init__(base)
        self.folder = self.folder.rename(base / "shop")
        new_repository(self.folder)
        self.be_on("main")
        (self.folder / "shop.py").write_text(SHOP)
        (self.folder / "Makefile").write_text(MAKEFILE)

    def configure(self, more: str = "", *, alias: str = "anthropic") -> None:
        (self.state_dir.parent / "config" / "config.toml").write_text(f"{CONFIG}{more}")

    def be_on(self, branch: str) -> None:
        (self.folder / ".git" / "HEAD").write_text(f"ref: refs/heads/{branch}\n")

    def will(self, text: str, *calls: tuple[str, dict[str, object]]) -> None:
        self.model.will(Reply(text=text, calls=calls, usage=USAGE))

    def will_fix(self, *more: dict[str, str]) -> None:
        """Script a run that reads shop.py and then edits it."""
        edits = [{"old_text": SUM, "new_text": BETTER_SUM}, *more]
        self.will("I'll look at how the total is computed.", ("read", {"path": "shop.py"}))
        self.will(
            "It adds the price of each item once, and never looks at `count`.",
            (
                "edit",
                {"path": "shop.py", "edits": edits} if more else {"path": "shop.py", **edits[0]},
            ),
        )

    def has_worked_before(self) -> None:
        """Record earlier sessions."""
        for title, branch, hours, prompts, answer in SESSIONS:
            self.be_on(branch)
            clock = Clock(time.time() - hours * 3600 - 600)
            store = Store(self.state_dir, self.folder, clock=clock)
            messages = exchange(title, "I'll look.") * (prompts - 1)
            messages = [*messages, *exchange(title, answer)]
            record(store, branch, messages, cwd=self.folder)
        self.be_on("main")


@dataclass
class Clock:
    """A clock that shows `now`."""

    now: float

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A screen, and the steps that lead to it."""

    act: Callable[[AppDriver], Awaitable[object]]
    """The steps of the user."""
    prepare: Callable[[Shop], object]
    """Scripts the model, before the start."""
    mode: Mode = "standard"
    """The permission mode."""
    height: int = 30
    """The lines of the terminal."""
    has_tips: bool = False
    """The greeting has tips."""


async def start(driver: AppDriver) -> None:
    await driver.idle()


def may_test(shop: Shop) -> None:
    rule = '[[permission.rule]]\nop = "execute"\nmatch = "make test"\neffect = "allow"\n'
    shop.configure(rule)
    shop.will("First the tests, to see what they cover.", ("bash", {"command": "make test"}))
    shop.will("I'll keep the signature of `total`.", ("read", {"path": "shop.py"}))
    edit = {"path": "shop.py", "old_text": SUM, "new_text": BETTER_SUM}
    shop.will("", ("edit", edit))
    shop.will("", ("bash", {"command": "make test"}))


async def steer(driver: AppDriver) -> None:
    await driver.send(REQUEST)
    await driver.until(lambda: "tests/test_cart.py" in driver.screen)
    await driver.send("Keep the signature of total, others call it.")
    await driver.until(lambda: driver.conversation.queued())
    driver.release_command()
    await driver.until(lambda: driver.screen.count("tests/test_cart.py") == 2)
    driver.app.composer.put("Then add a line to the changelog.")
    await driver.pilot.press("tab")
    await driver.until(lambda: driver.conversation.queued())


def wants_to_test(shop: Shop) -> None:
    shop.will_fix()
    shop.will("Now the tests.", ("bash", {"command": "pytest -q tests/test_cart.py"}))


async def approve_command(driver: AppDriver) -> None:
    await driver.send(REQUEST)
    await driver.asked()
    await driver.pilot.press("tab", "a")


async def approve_hunks(driver: AppDriver) -> None:
    await driver.send(REQUEST)
    await driver.asked()
    await driver.pilot.press("h", "enter")
    await driver.until(lambda: "1 of 2" in driver.screen)
    await driver.pilot.press("down", "down", "n", "enter")
    await driver.until(lambda: "accept 1 of 2" in driver.screen)


def can_go_back(shop: Shop) -> None:
    shop.configure("[session]\nsnapshots = true\n[loop.gates]\nverifier = 0\n")
    shop.will_fix({"old_text": RECEIPT, "new_text": BETTER_RECEIPT})
    shop.will("Each price now counts as often as the item was bought.")


async def rewind(driver: AppDriver) -> None:
    await driver.send(REQUEST)
    await driver.idle()
    (driver.project.folder / "Makefile").write_text(f"{MAKEFILE}\nlint:\n\truff check\n")
    await driver.pilot.press("escape", "escape")
    await driver.until(lambda: driver.app.picker.has_focus)
    await driver.pilot.press("down", "enter")
    await driver.until(lambda: driver.panel is not None and driver.panel.has_focus)


def can_plan(shop: Shop) -> None:
    shop.will("", ("read", {"path": "shop.py"}))
    shop.will("Prices are summed in shop.py:1. Nothing reads a code yet.")
    shop.will(PLAN)


async def plan(driver: AppDriver) -> None:
    await driver.send("/plan Let customers use discount codes.")
    await driver.until(lambda: driver.panel and driver.panel.has_focus and driver.panel.is_open)


async def pick_session(driver: AppDriver) -> None:
    await driver.send("/sessions")
    await driver.until(lambda: driver.app.picker.has_focus)


SCENES = {
    "start": Scene(act=start, prepare=Shop.has_worked_before, height=20, has_tips=True),
    "steering": Scene(act=steer, prepare=may_test, height=34),
    "permission": Scene(act=approve_command, prepare=wants_to_test, height=37),
    "hunks": Scene(
        act=approve_hunks,
        prepare=lambda shop: shop.will_fix({"old_text": RECEIPT, "new_text": BETTER_RECEIPT}),
        mode="restrictive",
    ),
    "rewind": Scene(act=rewind, prepare=can_go_back),
    "plan": Scene(act=plan, prepare=can_plan, height=28),
    "sessions": Scene(act=pick_session, prepare=Shop.has_worked_before, height=20),
}
"""The scenes by the names of their pictures."""


@contextmanager
def _same_everywhere() -> Iterator[Path]:
    """A home folder; keeps the machine, its speed and its settings out of the pictures."""
    # The length of its name decides where lines are wrapped.
    with (
        tempfile.TemporaryDirectory(dir="/tmp") as home,
        mock.patch.dict(os.environ, {"HOME": home}),
        mock.patch.object(tool_block, "SHOW_TIME_FROM_MS", 1_000_000),
        mock.patch.object(app, "TICK_S", 1_000_000),
    ):
        yield Path(home)


async def play(scene: Scene) -> Sequence[Sequence[Segment]]:
    """Play a scene, and return the lines of its last screen."""
    with _same_everywhere() as home:
        shop = Shop(home)
        scene.prepare(shop)
        with chdir(shop.folder):
            async with running_app(
                shop,
                size=(WIDTH, scene.height),
                mode=scene.mode,
                theme="dark",
                clock=lambda: 0.0,
                prepare=lambda: UiSettings(avatar="still"),
                has_tips=scene.has_tips,
            ) as driver:
                await scene.act(driver)
                await driver.pilot.pause()
                strips = driver.app.screen._compositor.render_strips()
                return [[_at_home(segment, home) for segment in strip] for strip in strips]


def _at_home(segment: Segment, home: Path) -> Segment:
    text = segment.text.replace(str(home), "/home/me")
    return Segment(text.ljust(len(segment.text)), segment.style)


def text_of(lines: Sequence[Sequence[Segment]]) -> str:
    """The text of a screen."""
    return "\n".join("".join(segment.text for segment in line).rstrip() for line in lines)


_CHAR_WIDTH, _LINE_HEIGHT, _MARGIN, _BAR = 8.4, 17, 14, 30
_PAGE, _TEXT = "#151618", "#d6d8dc"
# No font is loaded, because pages such as GitHub's block it; the text is fitted to its cells.
_HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" \
role="img" aria-label="{label}">
<rect x=".5" y=".5" width="{inner_width:g}" height="{inner_height:g}" rx="8" fill="{page}" \
stroke="#3a3d42"/>
<g fill="#3a3d42"><circle cx="20" cy="16" r="5"/><circle cx="38" cy="16" r="5"/>\
<circle cx="56" cy="16" r="5"/></g>
<g font-family="ui-monospace,SFMono-Regular,'SF Mono',Menlo,Consolas,'DejaVu Sans Mono',\
'Liberation Mono',monospace" font-size="14" xml:space="preserve" fill="{text}">
"""


def to_svg(lines: Sequence[Sequence[Segment]], label: str) -> str:
    """Draw the lines of a screen."""
    width = 2 * _MARGIN + WIDTH * _CHAR_WIDTH
    height = _BAR + len(lines) * _LINE_HEIGHT + _MARGIN
    head = _HEAD.format(
        label=escape(label, {'"': "&quot;"}),
        width=width,
        height=height,
        inner_width=width - 1,
        inner_height=height - 1,
        page=_PAGE,
        text=_TEXT,
    )
    parts = [part for y, line in enumerate(lines) for part in _line_parts(y, line)]
    return "\n".join([head.rstrip("\n"), *parts, "</g>", "</svg>", ""])


def _line_parts(y: int, line: Sequence[Segment]) -> Iterator[str]:
    """The grounds of a line, and then its texts."""
    grounds, texts, column = [], [], 0
    top = _BAR + y * _LINE_HEIGHT
    for (color, ground, marks), run in groupby(line, key=_look):
        text = "".join(segment.text for segment in run)
        width, x = cell_len(text), _MARGIN + column * _CHAR_WIDTH
        column += width
        if ground != _PAGE:
            grounds.append(
                f'<rect x="{x:g}" y="{top}" width="{width * _CHAR_WIDTH:g}" '
                f'height="{_LINE_HEIGHT}" fill="{ground}" shape-rendering="crispEdges"/>'
            )
        if shown := text.strip():
            x += cell_len(text[: text.index(shown)]) * _CHAR_WIDTH
            fill = "" if color == _TEXT else f' fill="{color}"'
            texts.append(
                f'<text x="{x:g}" y="{top + 13}" textLength="{cell_len(shown) * _CHAR_WIDTH:g}" '
                f'lengthAdjust="spacingAndGlyphs"{fill}{marks}>{_escaped(shown)}</text>'
            )
    yield from (*grounds, *texts)


def _escaped(text: str) -> str:
    # Several blanks would be drawn as one.
    return escape(text).replace("  ", " \N{NO-BREAK SPACE}")


def _look(segment: Segment) -> tuple[str, str, str]:
    """The colours of the text and its ground, and the attributes of the text."""
    style = segment.style or Style()
    color = style.color.get_truecolor().hex if style.color else _TEXT
    ground = style.bgcolor.get_truecolor().hex if style.bgcolor else _PAGE
    if style.reverse:
        color, ground = ground, color
    marks = ' font-weight="bold"' if style.bold else ""
    marks += ' font-style="italic"' if style.italic else ""
    marks += ' text-decoration="underline"' if style.underline else ""
    marks += ' text-decoration="line-through"' if style.strike else ""
    return color, ground, marks + (' opacity=".6"' if style.dim else "")


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, scene in SCENES.items():
        lines = asyncio.run(play(scene))
        (FOLDER / f"{name}.svg").write_text(to_svg(lines, f"dirge: {name}"), encoding="utf-8")


if __name__ == "__main__":
    main()
