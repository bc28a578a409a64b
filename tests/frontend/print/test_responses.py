"""The program with OpenAI's Responses."""

import pytest

from tests.support.fake_service import ModelReply
from tests.support.product import KEY, Product
from tests.support.strict_services import problems

CALL = [("read", {"path": "notes.txt"})]


@pytest.fixture
def responses(product: Product) -> Product:
    product.file("notes.txt", "the word is plover\n")
    url = product.service.url("anthropic")
    product.configure(
        f'[providers.claude]\ntype = "anthropic"\nmodel = "claude-sonnet-4-5"\n'
        f'base_url = "{url}"\napi_key_env = "FAKE_KEY"\n',
        wire="openai-responses",
        model="gpt-5.4",
    )
    return product


def test_tool_call_and_result_round_trip(responses: Product) -> None:
    responses.will(
        ModelReply(thinking="I look.", signature="SEALED-1", text="Let me see.", calls=CALL),
        ModelReply(
            thinking="Found.", signature="SEALED-2", text="It is plover.", usage=(200, 9, 150, 0)
        ),
        ModelReply(text="Again: plover."),
    )
    process = responses.ask("--model", "fake/gpt-5.4:low", "which word?")
    assert (process.exit_code, process.json["result"]) == (0, "It is plover.")
    assert responses.ask("--continue", "again?").json["result"] == "Again: plover."

    first, second, third = responses.service.requests
    assert first.path == "/v1/responses"
    assert first.headers["authorization"] == f"Bearer {KEY}"
    assert first.json["reasoning"] == {"effort": "low", "summary": "auto"}
    assert first.json["instructions"] == third.json["instructions"]
    assert [problems("openai-responses", request.json) for request in (first, second, third)] == [
        [],
        [],
        [],
    ]
    asked, thought, said, call, result = second.json["input"]
    assert asked == first.json["input"][0]
    assert (thought["id"], thought["encrypted_content"]) == ("rs_0", "SEALED-1")
    assert (said["content"], call["type"]) == ("Let me see.", "function_call")
    assert result["call_id"] == call["call_id"]
    assert "the word is plover" in result["output"]
    # A new process read the whole history from the journal.
    assert third.json["input"][:5] == second.json["input"]
    assert third.json["input"][5]["encrypted_content"] == "SEALED-2"


def test_session_switches_to_another_provider_and_back(responses: Product) -> None:
    responses.will(
        ModelReply(thinking="o", signature="OPENAI-SEALED", calls=CALL),
        ModelReply(text="One."),
        ModelReply(thinking="c", signature="CLAUDE-SEALED", calls=CALL),
        ModelReply(text="Two."),
        ModelReply(text="Three."),
    )
    claude = ("--model", "claude/claude-sonnet-4-5:low")
    openai = ("--model", "fake/gpt-5.4:low")
    assert responses.ask(*openai, "one").exit_code == 0
    assert responses.ask("--continue", *claude, "two").exit_code == 0
    assert responses.ask("--continue", *openai, "three").json["result"] == "Three."

    sent = [responses.sent_text(number) for number in range(5)]
    assert ["OPENAI-SEALED" in text for text in sent] == [False, True, False, False, True]
    assert ["CLAUDE-SEALED" in text for text in sent] == [False, False, False, True, False]
    kinds = ["openai-responses", "openai-responses", "anthropic", "anthropic", "openai-responses"]
    requests = responses.service.requests
    assert [problems(kind, r.json) for kind, r in zip(kinds, requests, strict=True)] == [[]] * 5
