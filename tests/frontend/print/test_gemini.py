"""The program with Gemini."""

import json

import pytest

from tests.support.fake_service import ModelReply
from tests.support.product import KEY, Product
from tests.support.strict_services import KEYWORDS, problems


@pytest.fixture
def google(product: Product) -> Product:
    product.configure(wire="gemini", model="gemini-3-flash-preview")
    return product


def keywords(schema: object) -> set[str]:
    """Every keyword in a converted schema."""
    if not isinstance(schema, dict):
        return set()
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ()), schema.get("items")]
    return set(schema).union(*map(keywords, inner))


def test_tool_call_and_result_round_trip(google: Product) -> None:
    google.file("notes.txt", "the word is plover\n")
    google.will(
        ModelReply(thinking="I look.", signature="sealed", calls=[("read", {"path": "notes.txt"})]),
        ModelReply(text="It is plover.", usage=(200, 9, 150, 0)),
    )
    process = google.ask("which word?")

    assert (process.exit_code, process.json["result"]) == (0, "It is plover.")
    first, second = google.service.requests
    assert first.headers["x-goog-api-key"] == KEY
    assert [problems("gemini", request.json) for request in (first, second)] == [[], []]
    asked, answer, result = second.json["contents"]
    assert asked == first.json["contents"][0]
    assert [part.get("thoughtSignature") for part in answer["parts"]] == ["sealed"]
    response = result["parts"][0]["functionResponse"]
    assert response["name"] == "read"
    assert "the word is plover" in response["response"]["output"]


def test_tool_schemas_use_only_keywords_of_gemini(google: Product) -> None:
    google.will(ModelReply(text="Yes."))
    google.ask("hello")

    (config,) = google.service.requests[0].json["tools"]
    tools = config["functionDeclarations"]
    assert len(tools) > 10
    for tool in tools:
        assert keywords(tool.get("parameters", {})) <= KEYWORDS, tool["name"]
    edit = next(tool for tool in tools if tool["name"] == "edit")
    assert edit["parameters"]["properties"]


def test_session_switches_to_another_provider_and_back(google: Product) -> None:
    google.file("notes.txt", "plover\n")
    url = google.service.url("anthropic")
    google.configure(
        f'[providers.claude]\ntype = "anthropic"\nmodel = "claude-sonnet-4-5"\n'
        f'base_url = "{url}"\napi_key_env = "FAKE_KEY"\n',
        wire="gemini",
        model="gemini-3-flash-preview",
    )
    call = [("read", {"path": "notes.txt"})]
    google.will(
        ModelReply(thinking="g", signature="GEMINI-SEALED", calls=call),
        ModelReply(text="One."),
        ModelReply(thinking="c", signature="CLAUDE-SEALED", calls=call),
        ModelReply(text="Two."),
        ModelReply(text="Three."),
    )
    claude = ("--model", "claude/claude-sonnet-4-5")
    gemini = ("--model", "fake/gemini-3-flash-preview")
    assert google.ask("one").exit_code == 0
    assert google.ask("--continue", *claude, "two").exit_code == 0
    assert google.ask("--continue", *gemini, "three").json["result"] == "Three."

    sent = [google.sent_text(number) for number in range(5)]
    assert ["GEMINI-SEALED" in text for text in sent] == [False, True, False, False, True]
    assert "CLAUDE-SEALED" not in sent[4]
    last = json.loads(sent[4])
    assert problems("gemini", last) == []
