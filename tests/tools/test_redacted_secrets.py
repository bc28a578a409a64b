"""A change never replaces a secret by `[redacted]` unnoticed."""

import contextlib

import pytest

from dirge_py.files.workspace import Workspace
from dirge_py.lib.redaction import Redactor
from dirge_py.tools.base import ToolServices
from dirge_py.tools.syntax_check import check_syntax
from dirge_py.tools.toolbox import Toolbox, discover_tools

SECRET = "a1b2c3d4e5f6g7h8i9j0"
CHANGED = f"-DB_PASSWORD={SECRET}\n+DB_PASSWORD=[redacted]\n"
OLD = f"DB_PASSWORD={SECRET}\nDEBUG=0\n"
SHOWN = OLD.replace(SECRET, "[redacted]")


@pytest.fixture
def redacting_tools(tools):
    """The tools of a program that redacts secrets in results."""
    workspace = Workspace([tools.folder], tools.folder)
    tools.workspace.close()
    tools.workspace = workspace
    services = ToolServices(files=workspace, syntax=check_syntax, redact=Redactor().redact)
    tools.toolbox = Toolbox(discover_tools(), services, str(tools.folder))
    with contextlib.closing(workspace):
        yield tools


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("write", {"path": "a.env", "content": SHOWN.replace("0\n", "1\n")}),
        ("edit", {"path": "a.env", "old_text": OLD, "new_text": SHOWN}),
        ("apply_patch", {"patch": f"*** Update File: a.env\n@@\n{CHANGED}"}),
    ],
)
async def test_redaction_mark_is_not_written_over_secret_unless_repeated(
    redacting_tools, tool, arguments
):
    file = redacting_tools.put("a.env", OLD)
    await redacting_tools.text("read", path="a.env")

    refused = await redacting_tools.refusal(tool, **arguments)

    assert "a secret that you were not shown" in refused and "a.env" in refused
    assert file.read_text() == OLD
    assert "as you insist" in await redacting_tools.text(tool, **arguments)
    assert "[redacted]" in file.read_text()


async def test_lost_secret_and_syntax_error_are_reported_together(redacting_tools):
    file = redacting_tools.put("a.py", f'MY_API_KEY = "{SECRET}"\n')
    await redacting_tools.text("read", path="a.py")

    refused = await redacting_tools.refusal(
        "write", path="a.py", content='MY_API_KEY = "[redacted]\n'
    )

    assert "a secret that you were not shown" in refused and "break the syntax" in refused
    assert SECRET in file.read_text()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x = 1\n", 'x = "[redacted]"\n'),
        (f"{OLD}# [redacted]\n", "# [redacted]\n"),
        (OLD, OLD.replace("DEBUG=0", "DEBUG=1")),
        (OLD, ""),
    ],
    ids=[
        "file without a secret",
        "mark already in the file",
        "change next to the secret",
        "secret removed",
    ],
)
async def test_changes_that_lose_no_secret_are_written(redacting_tools, old, new):
    file = redacting_tools.put("a.env", old)
    await redacting_tools.text("read", path="a.env")

    await redacting_tools.text("write", path="a.env", content=new)

    assert file.read_text() == new


async def test_new_file_may_contain_redaction_mark(redacting_tools):
    await redacting_tools.text("write", path="new.md", content="It shows as [redacted].\n")

    assert (redacting_tools.folder / "new.md").read_text() == "It shows as [redacted].\n"
