import asyncio
import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirge_py.tools.base import ToolServices
from dirge_py.tools.find_files import FindFilesTool
from dirge_py.tools.repo_overview import build_outline
from dirge_py.tools.search.lines import find_ripgrep
from dirge_py.tools.toolbox import Toolbox
from dirge_py.types.tools import Claim


@pytest.fixture(params=["ripgrep", "python"])
def find_tools(tools, request):
    """The tools, once with ripgrep and once without."""
    ripgrep = None
    if request.param == "ripgrep":
        ripgrep = find_ripgrep([]) or pytest.skip("needs ripgrep")
    services = ToolServices(files=tools.workspace, processes=tools.tool("grep")._services.processes)
    tools.toolbox = Toolbox([FindFilesTool(lambda roots: ripgrep)], services, str(tools.folder))
    return tools


async def test_find_files_matches_name_only(find_tools):
    for path in ("src/test_a.py", "src/deep/test_b.py", "test_dir/c.py", "src/atest_d.txt"):
        find_tools.put(path, "")

    text = await find_tools.text("find_files", pattern=r"^test_.*\.py$")

    assert text.split("\n") == ["2 files:", "src/deep/test_b.py", "src/test_a.py"]


async def test_find_files_shows_200_and_counts_all(find_tools):
    for number in range(250):
        find_tools.put(f"{number:03}.txt", "")

    lines = (await find_tools.text("find_files", pattern="txt")).split("\n")

    assert lines[0] == "250 files (200 shown):"
    assert lines[1:3] == ["000.txt", "001.txt"]
    assert lines[-1] == "… 50 more; narrow the pattern or the path."


async def test_find_files_omits_ignored_hidden_and_withheld_files(find_tools):
    find_tools.put(".git/HEAD", "")
    find_tools.put(".gitignore", "*.log\n")
    for path in ("x", "x.log", ".x", "secret.x"):
        find_tools.put(path, "")
    find_tools.workspace.withheld = lambda real: real.endswith("secret.x")

    assert (await find_tools.text("find_files", pattern="x")).split("\n") == [
        "1 file:",
        "x",
        "(1 file left out: permission rules keep it from being read.)",
    ]
    assert ".x" in await find_tools.text("find_files", pattern="x$", include_hidden=True)


async def test_find_files_finds_unusual_names(find_tools):
    (find_tools.folder / os.fsdecode(b"caf\xe9\n1")).write_text("")
    find_tools.put("-e", "")

    assert "caf\ufffd" in await find_tools.text("find_files", pattern="^caf")
    assert "-e" in await find_tools.text("find_files", pattern="^-e$")


async def test_find_files_without_match_is_message_and_bad_pattern_is_error(find_tools):
    find_tools.put("a", "")

    assert await find_tools.text("find_files", pattern="b") == "No file name matches b (of 1 file)."
    assert "position 0" in await find_tools.refusal("find_files", pattern="(b")
    assert "not a folder" in await find_tools.refusal("find_files", pattern="b", path="a")


async def test_endless_pattern_can_be_aborted(find_tools):
    find_tools.put("a" * 40, "")
    services = find_tools.tool("find_files")._services
    find_tools.toolbox = Toolbox(
        [FindFilesTool(lambda roots: None)], services, str(find_tools.folder)
    )
    running = asyncio.ensure_future(find_tools.call("find_files", pattern="(a|a)*b"))
    await asyncio.wait([running], timeout=0.3)
    began = time.perf_counter()

    find_tools.signal.abort()

    assert (await running).details["outcome"] == "aborted"
    assert time.perf_counter() - began < 5


async def test_repo_overview_is_tree_with_counts(tools):
    tools.put(".git/HEAD", "")
    tools.put(".gitignore", "build/\n")
    for path in ("README.md", "src/a.py", "src/deep/er/still/b.py", "build/x", ".hidden"):
        tools.put(path, "1\n2\n3")

    assert (await tools.text("repo_overview")).split("\n") == [
        ".: 3 files in 4 folders",
        "src/ (2 files)",
        "  deep/ (1 file)",
        "    er/ (1 file)",
        "  a.py",
        "README.md",
        "… 1 file not shown; give the path of a folder, or a larger max_depth.",
    ]
    assert "      still/ (1 file)\n        b.py" in await tools.text("repo_overview", max_depth=5)


async def test_repo_overview_counts_lines_on_request(tools):
    tools.put("src/a.py", "1\n2\n3")
    tools.put("b.bin", "\0\n")

    assert (await tools.text("repo_overview", include_line_counts=True)).split("\n")[1:] == [
        "src/ (1 file)",
        "  a.py (3 lines)",
        "b.bin",
    ]


async def test_repo_overview_omits_withheld_files(tools):
    tools.put("a/secret", "")
    tools.workspace.withheld = lambda real: real.endswith("secret")

    assert await tools.text("repo_overview") == (
        ".: 0 files in 0 folders\n(1 file left out: permission rules keep it from being read.)"
    )


async def test_repo_overview_of_file_is_error(tools):
    tools.put("a", "")

    assert "`read`" in await tools.refusal("repo_overview", path="a")
    assert "does not exist" in await tools.refusal("repo_overview", path="b")


@pytest.mark.parametrize("tool", ["find_files", "repo_overview"])
def test_find_files_and_repo_overview_claim_reading_folder(tools, tool):
    arguments = {"path": "src"} | ({"pattern": "x"} if tool == "find_files" else {})

    assert tools.toolbox.claims(tool, arguments) == [Claim("read", f"{tools.folder}/src")]


def test_outline_keeps_small_folders_next_to_large_folder():
    paths = [f"big/{n:04}" for n in range(2000)] + [f"small/{n}" for n in range(9)] + ["top"]

    shown, folders = build_outline(paths, max_depth=3, max_nodes=400)

    assert (len(shown), folders) == (400, 2)
    assert {"big", "small", "top", "small/8", "big/0000"} <= set(shown)
    assert list(shown)[:2] == ["big", "big/0000"] and list(shown)[-1] == "top"


NAMES = st.text("ab", min_size=1, max_size=2)


@given(
    st.sets(st.lists(NAMES, min_size=1, max_size=5).map("/".join), max_size=40),
    st.integers(1, 6),
    st.integers(1, 30),
)
def test_outline_counts_match_all_files(tree, max_depth, max_nodes):
    # A name is a file or a folder, never both.
    files = [path for path in tree if not any(other.startswith(f"{path}/") for other in tree)]

    outline, _ = build_outline(files, max_depth=max_depth, max_nodes=max_nodes)

    shown = [path for path, count in outline.items() if count is None]
    assert len(outline) <= max_nodes
    assert set(shown) <= set(files)
    assert all(path.count("/") < max_depth for path in shown)
    for folder, count in outline.items():
        if count is not None:
            assert count == sum(path.startswith(f"{folder}/") for path in files)
