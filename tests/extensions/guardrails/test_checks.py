"""What each guardrail finds, and how several results are combined."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirge_py.config.schema import GuardrailTable
from dirge_py.extensions.guardrails.checks import (
    Guardrail,
    Pass,
    Trip,
    Verdict,
    Warn,
    run_guardrails,
)
from dirge_py.extensions.guardrails.extension import Guardrails, checks_of
from dirge_py.lib.redaction import Redactor
from dirge_py.types.extensions import PromptCheck
from dirge_py.types.messages import user_text

KEY = "sk-proj-4hTq9xZ2LmB7vKc3"


@dataclass
class Saying:
    """A guardrail that always returns or raises the same."""

    name: str
    verdict: Any
    asked: int = 0

    def check(self, text: str) -> Verdict:
        self.asked += 1
        if isinstance(self.verdict, Exception):
            raise self.verdict
        verdict: Verdict = self.verdict
        return verdict


class Waiting(Saying):
    async def check(self, text: str) -> Verdict:  # type: ignore[override]
        return super().check(text)


def prompt_check(redact: Callable[[str], str], **table: Any) -> PromptCheck:
    """The check of prompts by one `[[guardrail]]` table."""
    tables = [GuardrailTable(on="input", **table)]
    (check,) = Guardrails(checks_of(tables, redact), lambda text: None).prompt_checks()
    return check


async def test_guardrail_pattern_matches_anywhere_in_the_text() -> None:
    check = prompt_check(str, name="prod", pattern=r"prod-db-\d+", action="trip")
    why = await check(user_text("psql -h prod-db-7 now"))
    assert why == r"guardrail `prod`: it matches `prod-db-\d+`"
    assert await check(user_text("psql -h test-db-7")) is None


@pytest.mark.parametrize(
    "text", [f"use {KEY}", "export AWS=AKIAIOSFODNN7EXAMPLE", "my-own-secret!"]
)
async def test_secrets_guardrail_finds_known_formats_and_listed_secrets(text: str) -> None:
    check = prompt_check(Redactor(["my-own-secret!"]).redact, builtin="secrets", action="trip")
    why = await check(user_text(text))
    assert why == "guardrail `secrets`: it contains a key, token or password"
    assert await check(user_text("an ordinary sk-etch of a task")) is None


@pytest.mark.parametrize("kind", [Saying, Waiting])
async def test_t9_guardrail_warning_does_not_hide_a_later_trip(kind: type[Saying]) -> None:
    checks = [kind("a", Warn("hm")), kind("b", Pass()), kind("c", Trip("no")), kind("d", Pass())]
    assert await run_guardrails(checks, "x") == Trip("`c`: no")
    assert [check.asked for check in checks] == [1, 1, 1, 0]


async def test_all_guardrail_warnings_are_combined() -> None:
    checks = [Saying("a", Warn("hm")), Saying("b", Pass()), Saying("c", Warn("oh"))]
    assert await run_guardrails(checks, "x") == Warn("`a`: hm; `c`: oh")


async def test_run_without_guardrails_passes() -> None:
    assert await run_guardrails([], "x") == Pass()


@pytest.mark.parametrize("kind", [Saying, Waiting])
@pytest.mark.parametrize("bad", [ValueError(f"cannot look at {KEY}"), None, "fine", True])
async def test_failing_guardrail_trips_without_quoting_the_text(
    kind: type[Saying], bad: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        verdict = await run_guardrails([Saying("a", Pass()), kind("b", bad)], KEY)
    assert isinstance(verdict, Trip) and verdict.reason.startswith("`b`: the check")
    assert KEY not in verdict.reason + caplog.text


verdicts = st.sampled_from([Pass(), Warn("w"), Trip("t"), ValueError("x")])


@given(st.lists(verdicts, max_size=6))
def test_worst_guardrail_verdict_wins_in_any_order(said: list[Any]) -> None:
    checks: list[Guardrail] = [Saying(f"g{n}", verdict) for n, verdict in enumerate(said)]
    verdict = asyncio.run(run_guardrails(checks, "x"))
    if any(isinstance(each, Trip | ValueError) for each in said):
        assert isinstance(verdict, Trip)
    elif any(isinstance(each, Warn) for each in said):
        assert isinstance(verdict, Warn)
    else:
        assert verdict == Pass()
