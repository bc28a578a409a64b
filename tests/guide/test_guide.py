"""The commands of the guide do what its pages say."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from tests.guide.guide_page import FOLDER, Block, Command, as_pattern, blocks, commands, mismatch
from tests.support.fake_service import FakeService, ModelReply
from tests.support.terminal import ROOT, hand, until
from tests.support.tmux import NEEDED, Tmux

MODELS = Path(__file__).parent / "models"
SAMPLE = ROOT / "dirge_py" / "cli" / "demo" / "sample" / "mend"
PAGES = sorted(FOLDER.glob("*.md"))
_SETTINGS = """\
provider = "rehearsal"

[providers.rehearsal]
type = "scripted"
script = "model.toml"

[ui]
reduced_motion = true
"""
_PAUSE_S = 0.15
"""Each look at the screen is a program of its own, and takes what dirge wants."""
_KEYS = {"Esc": "Escape", "Shift+Tab": "BTab", "Ctrl+D": "C-d", "Ctrl+C": "C-c", "Ctrl+O": "C-o"}


class GuideDriver:
    """A home with dirge installed, and a repository."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.repository = folder / "textstats"
        self.settings = self.home / ".config" / "dirge"
        self._services = ExitStack()
        self.settings.mkdir(parents=True)
        (self.settings / "config.toml").write_text(_SETTINGS)
        shutil.copytree(SAMPLE, self.repository)
        programs = folder / "bin"
        programs.mkdir()
        for name, words in (("dirge", "-m dirge_py"), ("python", "")):
            program = programs / name
            program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {words} "$@"\n')
            program.chmod(0o755)
        self.environment = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "PYTHONPATH": str(ROOT),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "GIT_CONFIG_GLOBAL": "/dev/null",
        }
        self.run("git init -q && git add -A && git -c user.name=n -c user.email=e commit -qm first")

    def run(self, command: str) -> tuple[int, list[str]]:
        """Exit code and output lines."""
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.repository,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
        )
        return done.returncode, done.stdout.decode().splitlines()

    def listen_to(self, model: str) -> None:
        if model:
            shutil.copy(MODELS / f"{model}.toml", self.settings / "model.toml")

    def close(self) -> None:
        self._services.close()

    def reach(self, kind: str) -> None:
        """Start a service of that type for the next commands."""
        prefix = kind.upper()
        if not kind or f"{prefix}_BASE_URL" in self.environment:
            return
        service = self._services.enter_context(FakeService([ModelReply(text="Hello.")] * 20))
        self.environment |= {
            f"{prefix}_BASE_URL": service.url(kind),
            f"{prefix}_API_KEY": "sk-guide-0123456789",
        }


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[GuideDriver]:
    home = GuideDriver(tmp_path)
    yield home
    home.close()


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    terminal = Tmux(tmp_path, size=(100, 40))
    yield terminal
    terminal.close()


@NEEDED
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_does_what_it_says(page: Path, driver: GuideDriver, tmux: Tmux) -> None:
    done = 0
    for block in blocks(page):
        driver.listen_to(block.model)
        driver.reach(block.service)
        if block.kind == "console":
            for command in commands(block.text):
                check(driver, command, f"{page.name}:{block.line}")
                done += 1
        elif block.kind == "screen":
            walk(driver, tmux, block, f"{page.name}:{block.line}")
            done += 1
        else:
            for command in steps(block.text):
                exit_code, printed = driver.run(command)
                assert exit_code == 0, f"{page.name}:{block.line}: {command}\n{printed}"
                done += 1
    assert done, f"{page.name} holds nothing to do"


def check(driver: GuideDriver, command: Command, place: str) -> None:
    _, printed = driver.run(command.text)
    wrong = mismatch(command.output, printed)
    assert not wrong, f"{place}: $ {command.text}\n{wrong}"


def walk(driver: GuideDriver, tmux: Tmux, block: Block, place: str) -> None:
    """Check a `screen` block: its lines appear in order."""
    settings = " ".join(
        f"{name}={shlex.quote(value)}"
        for name, value in driver.environment.items()
        if name != "TERM"
    )
    tmux.enter(f"cd {shlex.quote(str(driver.repository))}; clear")
    for line in block.text.splitlines():
        if line.startswith("$ "):
            tmux.enter(f'clear; env -i TERM="$TERM" {settings} {line[2:]}')
            wait_for(tmux, "ready", place)
        elif line.startswith("› "):
            tmux.enter(line[2:])
        elif key := re.fullmatch(r"\[(.+)\]", line.strip()):
            hand()
            tmux.press(_KEYS.get(key[1], key[1]))
        elif line.strip() not in ("", "…"):
            wait_for(tmux, line.strip(), place)


def wait_for(tmux: Tmux, line: str, place: str) -> None:
    what = re.compile(as_pattern(line))
    try:
        until(lambda: what.search(tmux.screen), pause_s=_PAUSE_S)
    except AssertionError:
        pytest.fail(f"{place}: never saw {line!r}; on the screen:\n{tmux.screen}")


def steps(workflow: str) -> Iterator[str]:
    """The dirge commands of a workflow, without the installation."""
    for job in yaml.safe_load(workflow)["jobs"].values():
        for step in job["steps"]:
            if "dirge" in step.get("run", "") and "install" not in step["run"]:
                yield step["run"]
