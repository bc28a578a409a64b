"""Thought signatures go back only to their model, on the part they came with."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.agent_loop import Context, LoopConfig
from dirge_py.agent_loop.model_call import Assembler
from dirge_py.providers.gemini import (
    SKIP_VALIDATION,
    SignedPiece,
    pack_signatures,
    unpack_signatures,
)
from dirge_py.providers.registry import find_provider
from dirge_py.providers.settings import ProviderSettings
from dirge_py.types.messages import (
    AssistantMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    user_text,
)
from tests.providers.test_gemini_answer import chunk, streamed
from tests.security.sizes import size
from tests.support.fake_service import ModelReply
from tests.support.loop_runs import Tool, run_loop
from tests.support.provider_client import KINDS, Client
from tests.support.strict_services import problems

MODEL = "work/gemini-3-flash-preview"
SIGNATURE = 'CiQB+/=\\"\u00fc sealed'
ANSWERED = ToolResultMessage(tool_call_id="g1", tool_name="read", content=(TextBlock("r"),))


async def parts_after(gemini, *parts, model=MODEL, then=MODEL):
    """The parts of `model`'s answer that are sent back in a request to the model `then`."""
    client = gemini(streamed(*map(chunk, parts), chunk(finishReason="STOP")), ModelReply(text="x"))
    assembler = Assembler()
    for event in await client.ask(model=model):
        for _ in assembler.feed(event):
            pass
    answer = AssistantMessage(content=assembler.blocks(), model=model)
    results = [
        ToolResultMessage(tool_call_id=call.id, tool_name=call.name, content=(TextBlock("r"),))
        for call in answer.calls
    ]
    history = (user_text("a"), answer, *results, user_text("b"))
    body = await client.sent(messages=history, model=then)
    assert problems("gemini", body) == []
    return body["contents"][1]["parts"]


def call(name="read", **arguments):
    return {"name": name, "args": arguments}


async def test_signature_is_sent_back_on_its_part(gemini):
    parts = [
        {"text": "plan", "thought": True},
        {"text": "ned", "thought": True, "thoughtSignature": "of a thought"},
        {"text": "Hel"},
        {"text": "lo", "thoughtSignature": "of a text"},
        {"text": "!"},
        {"functionCall": {"id": "g1", **call(p=1)}, "thoughtSignature": SIGNATURE},
        {"functionCall": {"id": "g2", **call(p=2)}},
    ]

    assert await parts_after(gemini, *parts) == parts[1:]


@pytest.mark.parametrize(
    "before", [{"text": "Hello."}, {"functionCall": {"name": "ls", "args": {}}}]
)
async def test_signature_at_end_is_sent_back_at_end(gemini, before):
    end = {"text": "", "thoughtSignature": SIGNATURE}
    first, last = await parts_after(gemini, before, end)

    assert last == end
    assert before.items() <= first.items()


async def test_text_split_by_signature_is_one_text(gemini):
    parts = [{"text": "Hel", "thoughtSignature": "s"}, {"text": "lo"}]
    client = gemini(streamed(*map(chunk, parts), chunk(finishReason="STOP")))
    assembler = Assembler()
    for event in await client.ask(model="work/gemini-2.5-pro"):
        for _ in assembler.feed(event):
            pass

    assert AssistantMessage(content=assembler.blocks()).text == "Hello"
    assert await parts_after(gemini, *parts, model="work/gemini-2.5-pro", then=MODEL) == [
        {"text": "Hello"}
    ]


async def test_call_without_id_is_sent_back_without_id(gemini):
    parts = [{"functionCall": call(p=1), "thoughtSignature": SIGNATURE}]

    assert await parts_after(gemini, *parts) == parts


async def test_unsigned_first_call_gets_skip_marker_for_validating_models(gemini):
    calls = [{"functionCall": call(p=1)}, {"functionCall": call(p=2)}]

    assert await parts_after(gemini, *calls) == [
        {**calls[0], "thoughtSignature": SKIP_VALIDATION},
        calls[1],
    ]
    old = "work/gemini-2.5-flash"
    assert await parts_after(gemini, *calls, model=old, then=old) == calls


@pytest.mark.parametrize(
    "then", ["work/gemini-3-pro-preview", "work/gemini-3.1-flash-lite", "work/gemini-flash-latest"]
)
async def test_signature_is_not_sent_to_another_model(gemini, then):
    parts = [
        {"text": "so", "thoughtSignature": SIGNATURE},
        {"functionCall": {"id": "g1", **call(p=1)}, "thoughtSignature": SIGNATURE},
    ]

    assert await parts_after(gemini, *parts, then=then) == [
        {"text": "so"},
        {"functionCall": call(p=1), "thoughtSignature": SKIP_VALIDATION},
    ]


async def test_signature_is_sent_to_preview_of_same_model(gemini):
    parts = [{"functionCall": {"id": "g1", **call(p=1)}, "thoughtSignature": SIGNATURE}]

    assert await parts_after(gemini, *parts, then="work/models/gemini-3-flash-preview-09") == parts


@pytest.mark.parametrize(
    ("thinking", "model"),
    [
        (ThinkingBlock(text="hm", signature="of Anthropic"), "claude/x"),
        (ThinkingBlock(text="hm", signature="of Anthropic"), ""),
        (ThinkingBlock(text="", redacted="of Anthropic"), MODEL),
        (
            ThinkingBlock(text="", signature=pack_signatures("call", 0, [SignedPiece(0, 0, "s")])),
            "other/gemini-3",
        ),
        (ThinkingBlock(text="hm", signature='gemini:["call",0,[]]'), MODEL),
        (ThinkingBlock(text="hm", signature="gemini:{"), MODEL),
        (ThinkingBlock(text="hm", signature='gemini:["thought",2,[[1,5,"s"]]]'), MODEL),
        (
            ThinkingBlock(
                text="cut", signature=pack_signatures("thought", 9, [SignedPiece(0, 9, "s")])
            ),
            MODEL,
        ),
        (
            ThinkingBlock(text="", signature=pack_signatures("text", 9, [SignedPiece(0, 9, "s")])),
            MODEL,
        ),
    ],
)
async def test_foreign_or_damaged_signature_is_not_sent_to_gemini(gemini, thinking, model):
    made = ToolCallBlock(id="g1", name="read", arguments={"p": 1})
    answer = AssistantMessage(content=(TextBlock("so"), thinking, made), model=model)
    body = await gemini(ModelReply(text="x")).sent(
        messages=(user_text("a"), answer, ANSWERED), model=MODEL
    )

    said, called = body["contents"][1]["parts"]
    assert said == {"text": "so"}
    assert called["thoughtSignature"] == SKIP_VALIDATION
    assert called["functionCall"]["args"] == {"p": 1}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "gemini"])
async def test_gemini_signature_is_not_sent_to_other_services(http, serve, gemini, kind):
    answer = AssistantMessage(
        content=(
            ThinkingBlock(
                text="hm", signature=pack_signatures("thought", 2, [SignedPiece(0, 2, "SEALED")])
            ),
            TextBlock("so"),
            ThinkingBlock(
                text="", signature=pack_signatures("text", 2, [SignedPiece(2, 2, "SEALED")])
            ),
            ThinkingBlock(
                text="", signature=pack_signatures("call", 0, [SignedPiece(0, 0, "SEALED")])
            ),
            ToolCallBlock(id="g1", name="read", arguments={}),
        ),
        model="google/gemini-3-flash-preview",
    )
    client = Client(http, kind, serve(ModelReply(text="x")))
    body = await client.sent(messages=(user_text("a"), answer, ANSWERED), thinking_level="high")

    assert "SEALED" not in json.dumps(body)
    assert problems(kind, body) == []


async def test_run_with_tools_sends_each_signature_back(http, serve):
    service = serve(
        ModelReply(thinking="hm", signature="one", calls=[("echo", {"text": "a"}), ("echo", {})]),
        ModelReply(thinking="so", signature="two", calls=[("echo", {"text": "b"})]),
        ModelReply(thinking="oh", text="Done.", signature="three"),
        ModelReply(text="Again."),
    )
    settings = ProviderSettings(
        alias="work", type="gemini", base_url=service.url("gemini"), api_key="k"
    )
    stream_fn = find_provider("gemini").make(settings, http)
    config, tools = LoopConfig(model=MODEL, thinking_level="low"), [Tool()]
    first = await run_loop(
        stream_fn, "go", context=Context(system_prompt="s", tools=tools), config=config
    )
    context = Context(system_prompt="s", messages=first.new, tools=tools)
    await run_loop(stream_fn, "again", context=context, config=config)

    bodies = [request.json for request in service.requests]
    assert [problems("gemini", body) for body in bodies] == [[]] * 4
    signatures = [
        [part.get("thoughtSignature") for part in content["parts"]]
        for content in bodies[-1]["contents"]
        if content["role"] == "model"
    ]
    assert signatures == [["one", None], ["two"], [None, "three"]]
    before = json.dumps(bodies[2]["contents"])
    assert json.dumps(bodies[3]["contents"]).startswith(before.rstrip("]}"))


@st.composite
def runs(draw):
    cuts = sorted(draw(st.lists(st.integers(0, 30), min_size=2, max_size=8)))
    pairs = list(zip(cuts[::2], cuts[1::2], strict=False))
    return 30, [
        SignedPiece(start, end, draw(st.text(min_size=1, max_size=5))) for start, end in pairs
    ]


@settings(max_examples=size(40, 200))
@given(run=runs())
def test_packed_signatures_round_trip_and_split_covers_whole_text(run):
    length, pieces = run
    seal = unpack_signatures(pack_signatures("text", length, pieces))

    assert list(seal.pieces) == pieces
    text = "abcdefghijklmnopqrstuvwxyz0123"
    parts = seal.split(text)
    assert "".join(part["text"] for part in parts) == text
    signed = [(p["text"], p["thoughtSignature"]) for p in parts if "thoughtSignature" in p]
    assert signed == [(text[start:end], signature) for start, end, signature in pieces]


@settings(max_examples=size(40, 200))
@given(st.one_of(st.text(), st.text().map(lambda text: f"gemini:{text}")))
def test_any_text_unpacks_to_none_or_valid_signatures(text):
    seal = unpack_signatures(text)

    assert (
        seal is None
        or unpack_signatures(pack_signatures(seal.on, seal.length, seal.pieces)) == seal
    )
