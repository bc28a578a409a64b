"""Secrets in results are redacted, or the whole result is withheld."""

from typing import Any, cast

from dirge_py.guards.tool_hooks import redact_results
from dirge_py.types.hooks import AfterToolCallResult
from dirge_py.types.messages import TextBlock
from dirge_py.types.tools import text_result


async def redacted_change(text: str, redact: Any) -> AfterToolCallResult | None:
    after = redact_results(redact).after_tool_call
    assert after is not None
    unused = cast(Any, None)
    return cast(AfterToolCallResult | None, after(unused, unused, text_result(text, raw=text)))


def text_of(change: AfterToolCallResult | None) -> str:
    assert change is not None and change.content is not None
    return "".join(block.text for block in change.content if isinstance(block, TextBlock))


async def test_secret_in_a_result_is_redacted() -> None:
    change = await redacted_change("the key sk-1", lambda text: text.replace("sk-1", "***"))

    assert text_of(change) == "the key ***"


async def test_result_without_secrets_is_unchanged() -> None:
    assert await redacted_change("nothing here", lambda text: text) is None


async def test_result_is_withheld_if_redaction_fails() -> None:
    def fail(text: str) -> str:
        raise ValueError(f"cannot read {text}")

    change = await redacted_change("the key sk-1", fail)

    assert change is not None and change.is_error
    assert text_of(change) == (
        "The result is withheld: searching it for secrets failed (ValueError)."
    )
    assert "sk-1" not in repr(change)
