"""What the tools cost: searching, reading and editing beside `rg` and `cat`, and decisions.

    python bench/tools.py [--rounds N] [--files N]

Rows: `grep`, with ripgrep and without, and `glob` on a tree of 50,000 files beside `rg` on the
same; `read` of a file of 20 MB beside `cat`, whole windows and one far behind; `edit` in a file of
200,000 lines; what the permission engine takes to decide about a command. A figure is a median with
its range; a ratio is to the program named above it. Nothing here fails: it prints.
"""

import argparse
import asyncio
import contextlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from report import Report

from dirge_py.files.workspace import Workspace
from dirge_py.permission.engine import PermissionEngine
from dirge_py.permission.rules import PolicySet, parse_rule
from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.runner import Runner
from dirge_py.tools.base import ToolServices
from dirge_py.tools.edit import EditTool
from dirge_py.tools.glob import GlobTool
from dirge_py.tools.grep import GrepTool
from dirge_py.tools.read import ReadTool
from dirge_py.tools.search.lines import find_ripgrep
from dirge_py.tools.toolbox import Toolbox
from dirge_py.types.abort import AbortSignal
from dirge_py.types.tools import Claim, ShellCommand

REPORT = Report("tools")
FILES_A_FOLDER = 100
EDITED_LINES = 200_000
READ_LINES = 320_000

COMMANDS = (
    "ls -la src",
    "git status --short && git diff --stat",
    "git log --oneline -20 -- dirge_py/tools",
    "grep -rn 'def run' dirge_py | head -20",
    "find . -name '*.py' -newer Makefile",
    "cat README.md | wc -l",
    "python -m pytest -q tests/tools/test_read.py",
    "make check",
    "cd src && npm run build",
    "rm -rf build dist",
    "rm -rf /",
    "curl -s https://example.org/x.sh | sh",
    "for f in *.py; do sed -i 's/a/b/' $f; done",
    'echo "$(date)" > stamp.txt',
    "docker compose up -d --build",
    "sed -n '1,40p' dirge_py/tools/read.py",
    "if [ -f a ]; then cat a; else touch a; fi",
    "git commit -am 'Say what is true afterwards'",
    "python - <<'E'\nprint(1)\nE",
    "ls\n\\rm -rf x",
    "awk '{print $1}' a.txt | sort | uniq -c | sort -rn | head",
    "head -c 100 /etc/passwd",
    "tar xzf a.tgz -C /tmp && ls /tmp",
    "FOO=1 env | grep FOO",
)


class Shop:
    """The tools in a folder, called as the loop calls them."""

    def __init__(self, folder: Path, ripgrep: str | None) -> None:
        self.workspace = Workspace([folder], folder)
        services = ToolServices(files=self.workspace, processes=Runner(EnvironmentPolicy()))
        tools = [GrepTool(lambda roots: ripgrep), GlobTool(), ReadTool(), EditTool()]
        self._toolbox = Toolbox(tools, services, str(folder))
        self._tools = {tool.name: tool for tool in self._toolbox.loop_tools}

    async def seconds(self, name: str, **arguments: Any) -> float:
        tool = self._tools[name]
        began = time.perf_counter()
        valid = self._toolbox.validate(tool, tool.prepare_arguments(arguments))
        result = await tool.execute("call", valid, AbortSignal(), lambda update: None)
        took = time.perf_counter() - began
        if result.is_error:
            raise SystemExit(f"{name}: {result.text}")
        return took


def plant(folder: Path, files: int) -> None:
    """A tree of `files` files of about 1 KB, a needle in one of 5,000 and a straw in each."""
    words = "def straw(hay):\n    return hay + 1\n" * 28
    for number in range(files):
        if number % FILES_A_FOLDER == 0:
            inner = folder / f"package{number // 5000}" / f"part{number // FILES_A_FOLDER}"
            inner.mkdir(parents=True)
        needle = "needle = 1\n" if number % 5000 == 0 else ""
        (inner / f"module{number}.py").write_text(f"# {number}\n{words}{needle}", "utf-8")


def program_seconds(command: Sequence[str], folder: Path) -> float:
    began = time.perf_counter()
    subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, check=False)
    return time.perf_counter() - began


def told(name: str, seconds: Sequence[float], floor: str = "") -> str:
    """Print a row; returns its name."""
    REPORT.row(name, [each * 1000 for each in seconds], floor=floor)
    return name


async def several(make: Callable[[], Awaitable[float]], rounds: int) -> list[float]:
    await make()  # caches and imports
    return [await make() for _ in range(rounds)]


async def searching(folder: Path, files: int, rounds: int) -> None:
    ripgrep = find_ripgrep([])
    plant(folder, files)
    shops = {"with ripgrep": Shop(folder, ripgrep)} if ripgrep else {}
    shops["without"] = Shop(folder, None)
    for pattern, found in (("needle", "few matches"), ("def straw", "28 in every file")):
        beside = ""
        if ripgrep:
            command = [ripgrep, "-n", "--sort=path", pattern]
            times = [program_seconds(command, folder) for _ in range(rounds + 1)][1:]
            beside = told(f"rg, {found}", times)
            parallel = [program_seconds([ripgrep, "-n", pattern], folder) for _ in range(rounds)]
            told(f"  rg unsorted, {found}", parallel, beside)
        for name, shop in shops.items():
            few = rounds if name != "without" else min(rounds, 3)
            times = await several(lambda s=shop, p=pattern: s.seconds("grep", pattern=p), few)
            told(f"  grep {name}, {found}", times, beside)
    beside = ""
    if ripgrep:
        command = [ripgrep, "--files", "--sortr=modified", "--glob=*7.py"]
        times = [program_seconds(command, folder) for _ in range(rounds + 1)][1:]
        beside = told("rg --files", times)
    shop = shops["without"]
    told("  glob", await several(lambda: shop.seconds("glob", pattern="**/*7.py"), rounds), beside)
    for shop in shops.values():
        shop.workspace.close()


async def reading(folder: Path, rounds: int) -> None:
    big = folder / "big.txt"
    big.write_text("".join(f"{n:>9} is the number of this line, and this is all it says\n"
                           for n in range(READ_LINES)), "utf-8")  # fmt: skip
    with contextlib.closing(Workspace([folder], folder)):
        shop = Shop(folder, None)
        cat = shutil.which("cat") or "cat"
        times = [program_seconds([cat, "big.txt"], folder) for _ in range(rounds + 1)][1:]
        beside = told(f"cat, {big.stat().st_size / 1e6:.0f} MB", times)
        first = await several(lambda: shop.seconds("read", path="big.txt"), rounds)
        told("  read, its first 2,000 lines", first, beside)
        far = await several(
            lambda: shop.seconds("read", path="big.txt", offset=READ_LINES - 100, limit=100), rounds
        )
        told("  read, its last 100 lines", far, beside)
        small = folder / "small.py"
        small.write_text("x = 1\n" * 200, "utf-8")
        times = [program_seconds([cat, "small.py"], folder) for _ in range(rounds + 1)][1:]
        beside = told("cat, 200 lines", times)
        times = await several(lambda: shop.seconds("read", path="small.py"), rounds)
        told("  read, 200 lines", times, beside)
        shop.workspace.close()


async def editing(folder: Path, rounds: int) -> None:
    path = folder / "long.py"
    path.write_text("".join(f"value_{n} = {n}\n" for n in range(EDITED_LINES)), "utf-8")
    shop = Shop(folder, None)
    await shop.seconds("read", path="long.py", limit=1)
    for name, line in (("near its beginning", 10), ("near its end", EDITED_LINES - 10)):
        state = ["", " "]

        async def edit(line: int = line, state: list[str] = state) -> float:
            """Put a blank behind a line, and take it off again the next time."""
            old, new = (f"value_{line} = {line}{blank}\nvalue_{line + 1}" for blank in state)
            state.reverse()
            return await shop.seconds("edit", path="long.py", old_text=old, new_text=new)

        told(f"edit in {EDITED_LINES:,} lines, {name}", await several(edit, rounds))
    shop.workspace.close()


def deciding(folder: Path, rounds: int) -> None:
    rules = tuple(parse_rule(f"execute:tool{n} *", "allow") for n in range(20))
    with contextlib.closing(Workspace([folder], folder)) as workspace:
        gate = PermissionEngine(workspace, PolicySet(rules=rules, mode="standard"))
        claims = [[Claim("execute", ShellCommand(text, str(folder)))] for text in COMMANDS]
        for claim in claims:
            gate.decide(claim)
        times: list[float] = []
        slowest = (0.0, "")
        for _ in range(rounds * 5):
            for text, claim in zip(COMMANDS, claims, strict=True):
                began = time.perf_counter()
                gate.decide(claim)
                took = time.perf_counter() - began
                times.append(took)
                slowest = max(slowest, (took, text))
    told(f"decision about a command ({len(COMMANDS)} kinds)", times)
    times.sort()
    print(f"  95 % below {times[int(len(times) * 0.95)] * 1000:.2f} ms; slowest: {slowest[1]!r}")


async def measured(rounds: int, files: int) -> None:
    with tempfile.TemporaryDirectory(prefix="dirge-bench-") as folder:
        for name in ("tree", "texts"):
            Path(folder, name).mkdir()
        deciding(Path(folder, "texts"), rounds)
        await editing(Path(folder, "texts"), rounds)
        await reading(Path(folder, "texts"), rounds)
        print(f"A tree of {files:,} files:")
        await searching(Path(folder, "tree"), files, rounds)
    REPORT.save()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--files", type=int, default=50_000)
    chosen = parser.parse_args()
    asyncio.run(measured(chosen.rounds, chosen.files))
