"""The transcript without a screen: for a pager, a dump, a search."""

import importlib
from collections.abc import Iterator

from dirge_py.ui.transcript.blocks import Block, UserBlock
from dirge_py.ui.transcript.layout import Layout
from dirge_py.ui.transcript.rows import Row

WIDTH = 1000
"""Columns to paint with where only the text counts: hardly a line is wrapped then."""


def own_text(block: Block) -> str:
    """What a block says of itself; empty if it does not, and has to be painted to know."""
    text = getattr(block, "text", "")
    return text if isinstance(text, str) else ""


def text_of(layout: Layout, row: Row) -> str:
    """All text of a row, what is folded away too."""
    return own_text(row.block) or layout.painted(row, WIDTH, expanded=True).text


def whole_text(layout: Layout) -> str:
    """All of the transcript; who says what is told by the marks that the screen has, too."""
    return "".join(_parts(layout)).lstrip("\n")


def _parts(layout: Layout) -> Iterator[str]:
    # The first frame needs no calls yet, and nobody this module before there are some.
    calls = importlib.import_module("dirge_py.ui.transcript.tool_block").ToolBlock
    for row in layout.rows:
        block, text = row.block, text_of(layout, row).strip("\n")
        if text.strip():
            mark = "● " if isinstance(block, calls) else "› " * isinstance(block, UserBlock)
            yield "\n" * row.gap + mark + text + "\n"
