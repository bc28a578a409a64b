"""How a model is named: `[alias/]id[:level]`."""

from collections.abc import Collection
from typing import get_args

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.llm import ThinkingLevel

THINKING_LEVELS: tuple[ThinkingLevel, ...] = get_args(ThinkingLevel)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """A model as somebody wrote it. No `alias`: the default one; no `id`: the alias' own model."""

    alias: str | None = None
    id: str | None = None
    level: ThinkingLevel | None = None


def parse_model(spec: str, aliases: Collection[str]) -> ModelSpec:
    """`spec` taken apart.

    Ids may hold `/` and `:` themselves (`qwen/qwen3`, `qwen2.5:7b`), so only a known alias before
    the first slash is an alias, and only a known level after the last colon is a level.
    """
    name, colon, last = spec.strip().rpartition(":")
    level = last if colon and last in THINKING_LEVELS else None
    if level is None:
        name = spec.strip()
    alias, slash, rest = name.partition("/")
    if alias in aliases:
        return ModelSpec(alias=alias, id=rest if slash and rest else None, level=level)
    return ModelSpec(id=name or None, level=level)
