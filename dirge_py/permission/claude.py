"""Rules in Claude's spelling (`Bash(npm test)`, `Edit(src/**)`), for `--allowedTools`."""

import re

from dirge_py.permission.rules import Effect, Rule, RuleOp, make_rule
from dirge_py.types.errors import UsageError

_OPS: dict[str, RuleOp] = {
    "Bash": "execute",
    "Edit": "edit",
    "Write": "edit",
    "MultiEdit": "edit",
    "NotebookEdit": "edit",
    "Read": "read",
    "Grep": "read",
    "Glob": "read",
    "LS": "read",
    "WebFetch": "network",
    "WebSearch": "network",
    "Task": "agent",
    "Agent": "agent",
    "Skill": "skill",
}
_ITEM = re.compile(
    r"\s*([A-Za-z_][A-Za-z0-9_-]*(?:\*)?)(?:\(((?:[^()]|\([^()]*\))*)\))?\s*(?:,|\s|\Z)"
)


def from_claude(text: str, effect: Effect = "allow", *, source: str = "") -> tuple[Rule, ...]:
    """The rules of a list separated by commas or blanks.

    `Bash(npm run test:*)` is `execute:npm run test *`; a bare name covers everything of its kind.

    Raises:
        UsageError: an item is not one we know.
    """
    rules: list[Rule] = []
    position = 0
    stripped = text.strip().strip(",").strip()
    while position < len(stripped):
        item = _ITEM.match(stripped, position)
        if not item:
            raise UsageError(
                f"{source + ': ' if source else ''}{stripped[position:]!r} is no tool rule.",
                hint="Write `Bash(npm test)`, `Edit(src/**)`, `Read`, `WebFetch(domain:a.b)`.",
            )
        rules.append(_translated(item.group(1), item.group(2), effect, source))
        position = item.end()
    return tuple(rules)


def _translated(tool: str, pattern: str | None, effect: Effect, source: str) -> Rule:
    if tool.startswith("mcp__"):
        return make_rule("mcp", _mcp_name(tool), effect, source=source)
    op = _OPS.get(tool)
    if op is None:
        raise UsageError(
            f"{source + ': ' if source else ''}there is no tool `{tool}` to write rules for.",
            hint="Known: " + ", ".join(_OPS) + ", mcp__SERVER__TOOL.",
        )
    everything = "**" if op in ("read", "edit") else "*"
    wanted = (pattern or "").strip()
    if not wanted or wanted == "*":
        return make_rule(op, everything, effect, source=source)
    if op == "execute":
        return make_rule(op, re.sub(r":\*\Z", " *", wanted), effect, source=source)
    if op == "network":
        return make_rule(op, wanted.removeprefix("domain:"), effect, source=source)
    if op in ("read", "edit"):
        # `//x` is Claude's way to write an absolute path.
        wanted = wanted[1:] if wanted.startswith("//") else wanted.removeprefix("./")
    return make_rule(op, wanted, effect, source=source)


def _mcp_name(tool: str) -> str:
    server, _, name = tool.removeprefix("mcp__").partition("__")
    return f"{server}.{name or '*'}"
