"""Streams that the services' SDKs allow, played over a socket and assembled."""

import random

import pytest

from dirge_py.agent_loop.model_call import Assembler
from dirge_py.types.llm import StreamDone, StreamError
from dirge_py.types.messages import CompactionBlock, TextBlock, ThinkingBlock, ToolCallBlock
from tests.providers.transcripts import Transcript, transcripts
from tests.support.fake_service import RawReply, cut
from tests.support.provider_client import KINDS, Client

ALL = [
    pytest.param(each, id=f"{kind}: {each.name}") for kind in KINDS for each in transcripts(kind)
]
SEEDS = (1, 2)


@pytest.mark.parametrize("told", ALL)
async def test_an_answer_means_what_the_sdk_takes_it_for(http, serve, told):
    replies = [RawReply(body=told.body)]
    replies += [RawReply(pieces=list(cut(told.body, random.Random(seed)))) for seed in SEEDS]
    client = Client(http, told.kind, serve(*replies))
    for _ in replies:
        assert _as_told(told, await client.ask()) == _expected(told)


def _expected(told: Transcript):
    calls = [(call_id, name, arguments) for call_id, name, arguments in told.calls]
    usage = tuple(told.usage)
    return {
        "text": told.text,
        "thinking": told.thinking,
        "calls": calls,
        "seals": list(told.seals) or [...] * told.sealed,
        "folds": list(told.folds),
        "stop": told.stop,
        "usage": usage,
        "error": told.error,
        "words": told.words,
    }


def _as_told(told: Transcript, events):
    assembler = Assembler()
    for event in events[:-1]:
        assert not isinstance(event, StreamDone | StreamError)
        list(assembler.feed(event))
    list(assembler.close())
    last = events[-1]
    blocks = assembler.blocks(with_calls=isinstance(last, StreamDone))
    calls = [block for block in blocks if isinstance(block, ToolCallBlock)]
    ids = ["*"] * len(calls)
    for at, (call_id, *_) in enumerate(told.calls[: len(calls)]):
        ids[at] = calls[at].id if call_id != "*" else call_id
    found = {
        "text": "".join(block.text for block in blocks if isinstance(block, TextBlock)),
        "thinking": "".join(block.text for block in blocks if isinstance(block, ThinkingBlock)),
        "calls": [(i, call.name, call.arguments) for i, call in zip(ids, calls, strict=True)],
        "seals": [... if told.sealed else seal for block in blocks if (seal := _seal(block))],
        "folds": [dict(block.data) for block in blocks if isinstance(block, CompactionBlock)],
        "stop": "",
        "usage": (),
        "error": "",
        "words": "",
    }
    if isinstance(last, StreamError):
        found |= {"error": last.error.kind}
        found |= {"words": told.words if told.words in last.error.message else last.error.message}
        return found
    assert isinstance(last, StreamDone)
    used = last.usage
    if used is not None:
        found["usage"] = (used.input, used.output, used.cache_read, used.cache_write)
    return {**found, "stop": last.stop_reason}


def _seal(block):
    return (block.signature or block.redacted) if isinstance(block, ThinkingBlock) else None
