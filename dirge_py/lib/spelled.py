"""Names and code in questions: `visible`, fitted to what each of them is."""

from dirge_py.lib.clean import visible

_DEEPEST_INDENT = 40
"""Blanks at the beginning of a line of code that are shown as they are; more are counted."""


def visible_name(name: str) -> str:
    """A path, rule or name on one line: one with a newline could pass for two of them."""
    return visible(name).replace("\n", "<U+000A>").replace("\t", "<U+0009>")


def visible_code(line: str) -> str:
    """A line of code, its indentation kept as it is."""
    indent = len(line) - len(line.lstrip(" \t"))
    if indent > _DEEPEST_INDENT or indent == len(line):
        return visible(line)
    return line[:indent] + visible(line[indent:])
