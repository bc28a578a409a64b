"""The settings of `/plan`, and the names that another dirge has for two of them."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from dirge_py.config.lines import Path
from dirge_py.config.table import Positive, Table

SEED_NAMES: Mapping[str, str] = {
    "phased_workflow_enabled": "enabled",
    "phased_workflow_max_review_cycles": "max_review_cycles",
}
"""Names that count for `[plan]`, at the top or in it."""


class Plan(Table):
    """How `/plan` works through a request."""

    enabled: bool = Field(default=True, description="Whether there is `/plan`.")
    max_review_cycles: Annotated[int, Field(ge=0, le=100)] = Field(
        default=2, description="Times what a review misses is worked on and reviewed again."
    )
    auto_accept: bool | None = Field(
        default=None,
        description="Carry a plan out unasked; absent: where nobody could be asked (`-p`).",
    )
    max_turns: Positive = Field(
        default=40, description="Turns that exploring, planning and each review may have."
    )
    sandbox: Literal["preferred", "off"] = Field(
        default="preferred",
        description="Shut the commands of these phases in, wherever a sandbox works.",
    )


def with_own_names(settings: Any) -> Any:
    """`settings`, as read from the file, with the values under `SEED_NAMES` where ours belong.

    Raises:
        ValueError: two names of one setting say different things.
    """
    if not isinstance(settings, Mapping):
        return settings
    plan = settings.get("plan", {})
    if not isinstance(plan, Mapping):
        return settings
    given = [*_seed_values(settings, ""), *_seed_values(plan, "[plan] ")]
    if not given:
        return settings
    own = {key: value for key, value in plan.items() if key not in SEED_NAMES}
    said = {key: f"[plan] {key}" for key in own}
    for shown, key, value in given:
        if key in own and (own[key], type(own[key])) != (value, type(value)):
            raise ValueError(f"`{shown}` and `{said[key]}` are one setting with two values")
        own[key] = value
        said.setdefault(key, shown)
    rest = {key: value for key, value in settings.items() if key not in SEED_NAMES}
    return {**rest, "plan": own}


def own_path(path: Path) -> Path:
    """Where the setting at `path` of a file belongs: `("plan", "enabled")` for a seed's name."""
    if path[:1] == ("plan",) and len(path) == 2 and path[1] in SEED_NAMES:
        return ("plan", SEED_NAMES[str(path[1])])
    if len(path) == 1 and path[0] in SEED_NAMES:
        return ("plan", SEED_NAMES[str(path[0])])
    return path


def _seed_values(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str, Any]]:
    """(name for people, our key, value) of the seed's names in this table."""
    for name, key in SEED_NAMES.items():
        if name in table:
            yield f"{prefix}{name}", key, table[name]
