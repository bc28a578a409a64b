"""Rules (`op:pattern`, or `Bash(npm test)` in Claude Code's syntax), and what they match."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal, TypeAlias, cast, get_args

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.nearest import nearest
from dirge_py.lib.paths import is_below
from dirge_py.lib.shell_lexer import ANYTHING
from dirge_py.permission.facts import CommandFact, Fact, PathFact, ResolvedPath
from dirge_py.permission.patterns import (
    WordPattern,
    command_pattern,
    could_match,
    match_command,
    match_path,
    name_pattern,
    path_pattern,
    quoted_path,
)
from dirge_py.permission.prefix_rules import covers
from dirge_py.types.errors import DirgeError, UsageError
from dirge_py.types.tools import Operation

Effect = Literal["allow", "ask", "deny"]
Mode = Literal["standard", "accept", "restrictive", "plan", "yolo"]
RuleOp: TypeAlias = Operation | Literal["*"]
_OPS: tuple[str, ...] = (*get_args(Operation), "*")
_ANYWHERE = frozenset(("*", "**"))
_RAW_REACH = 64


@dataclass(frozen=True, slots=True)
class Rule:
    """An effect for the claims that `op` and `pattern` match."""

    op: RuleOp
    """The operation; `*` means any."""
    pattern: str
    """The pattern that resources are compared with, see `patterns`."""
    effect: Effect
    """Allow, ask or deny."""
    source: str = ""
    """Where the rule comes from, as text for the user."""

    def __str__(self) -> str:
        return f"{self.op}:{self.pattern}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchors:
    """The folders that paths in rules are relative to."""

    folders: tuple[str, ...] = ()
    """The start folder and the roots of the workspace."""
    home: str = ""
    """The physical home folder."""
    copies: tuple[tuple[str, str], ...] = ()
    """Pairs of a physical folder and its original; rules for paths in one apply to the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySet:
    """Everything a decision depends on, except the call itself."""

    rules: tuple[Rule, ...] = ()
    """The rules, in the order of their files and flags."""
    project_rules: tuple[Rule, ...] = ()
    """Rules of a project; they only tighten."""
    grants: tuple[Rule, ...] = ()
    """Allow rules that the user granted in this session."""
    mode: Mode = "standard"
    """The preset for claims that no rule matches."""
    anchors: Anchors = Anchors()
    """The folders that paths in rules are relative to."""
    is_sandboxed: bool = False
    """Whether commands run in a sandbox that was tested."""


def parse_rule(text: str, effect: Effect, *, source: str = "") -> Rule:
    """Parse a rule written as `op:pattern`. Raises UsageError if it is not valid."""
    op, colon, pattern = text.partition(":")
    if not colon:
        raise UsageError(
            f"{_where(source)}{text!r} isn't a rule: it has no `:`.",
            hint="A rule is `operation:pattern`, for example `execute:git *` or `edit:src/**`.",
        )
    return make_rule(op.strip(), _trimmed(pattern), effect, source=source)


def make_rule(
    op: str, pattern: str, effect: Effect, *, source: str = "", error: type[DirgeError] = UsageError
) -> Rule:
    """Return the rule with these parts. Raises `error` if they are not valid."""
    where = _where(source)
    if op not in _OPS:
        near = nearest(op, _OPS)
        raise error(
            f"{where}`{op}:{pattern}` isn't a rule: there is no operation `{op}`.",
            hint=f"Did you mean `{near}`?" if near else "Operations: " + ", ".join(_OPS) + ".",
        )
    if not pattern:
        raise error(f"{where}`{op}:` has no pattern.", hint=f"`{op}:*` matches every {op}.")
    rule = Rule(cast(RuleOp, op), pattern, effect, source)
    try:
        if op in ("execute", "*"):
            command_pattern(pattern)
        if op in ("read", "edit", "*"):
            path_pattern(pattern)
        if op not in ("execute", "read", "edit"):
            name_pattern(pattern)
    except ValueError as problem:
        raise error(f"{where}`{rule}` isn't a rule: {problem}.") from None
    return rule


def permits(rule: Rule, fact: Fact, anchors: Anchors) -> bool:
    """Whether an allow rule covers this fact; it is read narrowly."""
    if rule.op not in ("*", fact.op):
        return False
    if isinstance(fact, CommandFact):
        # A command that is not plain has no words, so no rule can allow it. Words that run other
        # programs have to be spelled out, except for a rule that covers every command.
        pattern = command_pattern(rule.pattern)
        return bool(fact.words) and covers(pattern, fact.words, fact.limits)
    if isinstance(fact, PathFact):
        return _covers_path(rule.pattern, [fact.place.real], anchors, is_strict=True)
    return name_pattern(rule.pattern).fullmatch(fact.resource.lower().rstrip(".")) is not None


def forbids(rule: Rule, fact: Fact, anchors: Anchors) -> str:
    """Return which part of the fact an ask or deny rule hits, read widely; "" if none."""
    if isinstance(fact, CommandFact):
        return _forbids_command(rule, fact, anchors)
    if rule.op not in ("*", fact.op):
        return ""
    if isinstance(fact, PathFact):
        return fact.resource if _hits_place(rule, fact.place, anchors) else ""
    matched = name_pattern(rule.pattern).fullmatch(fact.resource.lower().rstrip("."))
    return fact.resource if matched else ""


def _forbids_command(rule: Rule, fact: CommandFact, anchors: Anchors) -> str:
    if rule.op in ("*", "execute"):
        pattern = command_pattern(rule.pattern)
        for words in (fact.words, *fact.may_run):
            if words and match_command(pattern, words, is_strict=False):
                return " ".join(word.text for word in words)
        if _in_raw_words(pattern, fact):
            return fact.text
    places = {"read": fact.reads, "edit": fact.touches, "*": fact.reads + fact.touches}
    hits = (place for place in places.get(rule.op, ()) if _hits_place(rule, place, anchors))
    return next((place.asked for place in hits), "")


def may_forbid(rule: Rule, fact: Fact) -> str:
    """Return why dirge can't tell whether a deny rule hits this, or ""."""
    if not isinstance(fact, CommandFact):
        return ""
    if rule.op in ("*", "execute") and fact.unresolved.commands:
        pattern = command_pattern(rule.pattern)
        pattern += command_pattern("*") if pattern[-1].is_open else ()
        could_hit = (one for one in fact.unresolved.commands if could_match(pattern, one.words))
        found = next(could_hit, None)
        if found and found.shown == ANYTHING:
            return "dirge cannot tell beforehand what it would run"
        if found:
            what = "which program" if found.is_program else "what"
            return (
                f"dirge cannot tell {what} `{found.shown}` is before the command runs; write it out"
            )
    unknown = {"read": fact.unresolved.reads, "edit": fact.unresolved.edits}
    unknown["*"] = fact.unresolved.reads + fact.unresolved.edits
    for word in unknown.get(rule.op, ()):
        return (
            f"dirge cannot tell which file `{word}` is before the command runs; write its path out"
        )
    return ""


def _in_raw_words(pattern: tuple[WordPattern, ...], fact: CommandFact) -> bool:
    """Whether the pattern's words occur anywhere in text that could not be parsed."""
    words = fact.raw_words
    if words and pattern[0].is_rest:
        return True
    open_ended = pattern + command_pattern("*")
    heads = {word for word in set(words) if pattern[0].matches(word, is_strict=False)}
    starts = (at for at, word in enumerate(words) if word in heads) if heads else ()
    return any(
        match_command(open_ended, words[at : at + _RAW_REACH], is_strict=False) for at in starts
    )


def _hits_place(rule: Rule, place: ResolvedPath, anchors: Anchors) -> bool:
    if rule.pattern in _ANYWHERE:
        return True
    return _covers_path(rule.pattern, [place.asked, place.real], anchors, is_strict=False)


def _covers_path(
    pattern: str, spellings: Sequence[str], anchors: Anchors, *, is_strict: bool
) -> bool:
    originals = [
        original + path[len(copy) :]
        for path in spellings
        for copy, original in anchors.copies
        if is_below(path, copy)
    ]
    return any(
        match_path(regex, path, is_strict=is_strict)
        for regex in _regexes(pattern, anchors)
        for path in dict.fromkeys((*spellings, *originals))
    )


# Cached: a command may name hundreds of places, and every rule is compared with each of them.
@lru_cache(maxsize=4096)
def _regexes(pattern: str, anchors: Anchors) -> Sequence[re.Pattern[str]]:
    return tuple(map(path_pattern, anchored(pattern, anchors)))


def anchored(pattern: str, anchors: Anchors) -> Sequence[str]:
    """Return the absolute patterns that a path pattern stands for."""
    if pattern.startswith("/"):
        return (pattern,)
    for sign in ("~", "$HOME"):
        if pattern == sign or pattern.startswith(sign + "/"):
            return (quoted_path(anchors.home) + pattern[len(sign) :],)
    return tuple(f"{quoted_path(folder)}/{pattern}" for folder in anchors.folders)


def _trimmed(pattern: str) -> str:
    """Return the pattern without surrounding blanks, except one after a backslash."""
    begun = pattern.lstrip()
    bare = begun.rstrip()
    backslashes = len(bare) - len(bare.rstrip("\\"))
    return begun[: len(bare) + 1] if backslashes % 2 else bare


def _where(source: str) -> str:
    return f"{source}: " if source else ""


_TOOLS: Mapping[RuleOp, str] = {
    "execute": "Bash",
    "edit": "Edit Write MultiEdit NotebookEdit",
    "read": "Read Grep Glob LS",
    "network": "WebFetch WebSearch",
    "agent": "Task Agent",
    "skill": "Skill",
}
_OPS_BY_TOOL = {tool: op for op, tools in _TOOLS.items() for tool in tools.split()}
_TOOL_WITH_PATTERN = late_pattern(
    r"\s*([A-Za-z_][A-Za-z0-9_-]*(?:\*)?)(?:\(((?:[^()]|\([^()]*\))*)\))?\s*(?:,|\s|\Z)"
)


def parse_claude_rules(
    text: str, effect: Effect = "allow", *, source: str = ""
) -> tuple[Rule, ...]:
    """Parse a list of rules separated by commas or blanks. Raises UsageError for unknown ones.

    `Bash(npm run test:*)` is `execute:npm run test *`; a bare name covers everything of its kind.
    """
    rules: list[Rule] = []
    position = 0
    stripped = text.strip().strip(",").strip()
    while position < len(stripped):
        item = _TOOL_WITH_PATTERN.match(stripped, position)
        if not item:
            raise UsageError(
                f"{_where(source)}{stripped[position:]!r} is not a tool rule.",
                hint="Write `Bash(npm test)`, `Edit(src/**)`, `Read`, `WebFetch(domain:a.b)`.",
            )
        rules.append(_translated(item.group(1), item.group(2), effect, source))
        position = item.end()
    return tuple(rules)


def _translated(tool: str, pattern: str | None, effect: Effect, source: str) -> Rule:
    if tool.startswith("mcp__"):
        server, _, name = tool.removeprefix("mcp__").partition("__")
        return make_rule("mcp", f"{server}.{name or '*'}", effect, source=source)
    op = _OPS_BY_TOOL.get(tool)
    if op is None:
        raise UsageError(
            f"{_where(source)}there is no tool `{tool}` to write rules for.",
            hint="Known: " + ", ".join(_OPS_BY_TOOL) + ", mcp__SERVER__TOOL.",
        )
    everything = "**" if op in ("read", "edit") else "*"
    wanted = (pattern or "").strip()
    if not wanted or wanted == "*":
        wanted = everything
    elif op == "execute":
        wanted = re.sub(r":\*\Z", " *", wanted)
    elif op == "network":
        wanted = wanted.removeprefix("domain:")
    elif op in ("read", "edit"):
        # `//x` is Claude Code's syntax for an absolute path.
        wanted = wanted[1:] if wanted.startswith("//") else wanted.removeprefix("./")
    return make_rule(op, wanted, effect, source=source)
