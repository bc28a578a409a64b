"""The settings of the loop: how a run goes on, what it may use, what it is told and checked for."""

import re
from typing import Annotated, Literal

from pydantic import Field, model_validator

from dirge_py.config.table import Bound, Positive, PositiveNumber, Table

Delivery = Literal["all", "one-at-a-time"]


class Storm(Table):
    """The guard against calls that repeat without getting anywhere."""

    enabled: bool = Field(default=True, description="Whether it watches.")
    window: Annotated[int, Field(ge=2, le=100)] = Field(
        default=6, description="How many of the last calls are compared."
    )
    threshold: Annotated[int, Field(ge=2, le=100)] = Field(
        default=3, description="Which repetition is answered instead of run."
    )
    exempt: list[str] = Field(
        default_factory=list, description="Tools that may repeat, besides those that poll."
    )
    mutating: list[str] = Field(
        default_factory=list, description="Tools that change something, besides those known to."
    )

    @model_validator(mode="after")
    def _can_be_reached(self) -> "Storm":
        if self.window < self.threshold:
            raise ValueError("`window` must be at least `threshold`")
        return self


class Gates(Table):
    """Reminders of the harness, in the loop and when the agent would stop. 0 turns one off."""

    failures: Bound = Field(default=3, description="Failures in a row before it is told to look.")
    depth: Bound = Field(
        default=0, description="Calls about the same files before it is told to step back."
    )
    resume: Bound = Field(
        default=3, description="Times a run that stopped right after a failure is sent on."
    )
    verifier: Bound = Field(
        default=1, description="Times edited code that was not tested is sent back."
    )
    critic: Literal["off", "advisory", "blocking"] = Field(
        default="advisory", description="How the model of `[roles] critic`, if set, judges a run."
    )
    goal: str | None = Field(
        default=None, description="What must be reached before a run may end; judged by the critic."
    )
    goal_checks: Bound = Field(default=12, description="Times a run is sent back to its goal.")
    todo: Bound = Field(
        default=3, description="Times a run that leaves todo items open is sent back."
    )


class Loop(Table):
    """How a run goes on and ends."""

    max_turns: Positive = Field(default=100, description="Turns after which a run ends.")
    steering: Delivery = Field(
        default="all",
        description="How many waiting inputs enter before a turn: all, or one at a time.",
    )
    follow_up: Delivery = Field(
        default="one-at-a-time", description="How many are delivered when the agent would stop."
    )
    recoveries: Bound = Field(
        default=3, description="Times in a row a run goes on after an answer that broke off."
    )
    escalations: Bound = Field(
        default=3, description="Turns that the model of `[roles] escalate` may take over."
    )
    scavenge: bool = Field(
        default=False, description="Look for calls that a model wrote into its thoughts as text."
    )
    storm: Storm = Field(default_factory=dict, validate_default=True)
    gates: Gates = Field(default_factory=dict, validate_default=True)


class Limits(Table):
    """What one run may use. Absent: no limit."""

    cost_usd: PositiveNumber | None = Field(
        default=None, description="Money, where prices are known."
    )
    input_tokens: Positive | None = Field(default=None, description="Tokens sent.")
    output_tokens: Positive | None = Field(default=None, description="Tokens received.")
    tokens: Positive | None = Field(default=None, description="Tokens, in and out.")
    time_s: PositiveNumber | None = Field(default=None, description="Seconds.")
    requests: Positive | None = Field(default=None, description="Model calls.")
    tool_calls: Positive | None = Field(default=None, description="Tool calls.")


class Context(Table):
    """What the model is told besides the conversation."""

    project_files: bool = Field(
        default=True, description="Send AGENTS.md and CLAUDE.md, from here up to the git root."
    )
    project_file_max_bytes: Annotated[int, Field(ge=1024, le=1024 * 1024)] = Field(
        default=32 * 1024, description="How much of each such file is sent."
    )
    compact: bool = Field(default=True, description="Shorten old history before it fills up.")
    window_tokens: Positive | None = Field(
        default=None, description="The model's window; absent: as the catalogue says."
    )
    target_tokens: Annotated[int, Field(ge=16_000)] = Field(
        default=250_000, description="The most of a larger window that is used."
    )
    fold_at: Annotated[float, Field(ge=0.3, le=0.75)] = Field(
        default=0.75, description="The share of the window from which old history is folded."
    )
    strategies: list[Literal["clear_results", "summarize", "window"]] = Field(
        default=["clear_results", "summarize", "window"],
        description="How history is shortened, in this order, until it fits.",
    )
    keep_results: Bound = Field(
        default=5, description="The newest tool results that `clear_results` leaves whole."
    )
    keep_messages: Annotated[int, Field(ge=2, le=1000)] = Field(
        default=20, description="The newest messages that `window` keeps."
    )
    restore_files: Annotated[int, Field(ge=0, le=20)] = Field(
        default=5, description="Files read before a fold that are shown again after it."
    )


class Reminder(Table):
    """Something the model is told again and again, in a request only, never in history."""

    every_turns: Positive | None = Field(default=None, description="Told in every n-th turn.")
    at_tokens: Positive | None = Field(
        default=None, description="Told in every turn from this many tokens of context on."
    )
    text: Annotated[str, Field(min_length=1)] = Field(description="What is told.")

    @model_validator(mode="after")
    def _has_one_occasion(self) -> "Reminder":
        if (self.every_turns is None) == (self.at_tokens is None):
            raise ValueError("give one of `every_turns` and `at_tokens`")
        return self


GuardrailPlace = Literal["input", "output", "tool_result"]


class Guardrail(Table):
    """A check of what goes in or comes out: a pattern, or one that is built in."""

    on: GuardrailPlace | list[GuardrailPlace] = Field(description="What is checked.")
    pattern: str | None = Field(default=None, description="A regular expression to look for.")
    builtin: Literal["secrets"] | None = Field(
        default=None, description="`secrets`: keys, tokens and passwords."
    )
    action: Literal["warn", "trip"] = Field(
        default="trip", description="Tell the person, or stop what is checked."
    )
    name: str = Field(default="", description="What it is called in messages.")

    @model_validator(mode="after")
    def _checks_one_thing(self) -> "Guardrail":
        if (self.pattern is None) == (self.builtin is None):
            raise ValueError("give one of `pattern` and `builtin`")
        try:
            re.compile(self.pattern or "")
        except re.error as error:
            raise ValueError(f"`pattern` is no regular expression: {error}") from None
        return self
