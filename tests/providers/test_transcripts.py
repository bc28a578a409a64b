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


@pytest.mark.parametrize("transcript", ALL)
async def test_transcript_parses_to_result_of_sdk(http, serve, transcript):
    replies = [RawReply(body=transcript.body)]
    replies += [RawReply(pieces=list(cut(transcript.body, random.Random(seed)))) for seed in SEEDS]
    client = Client(http, transcript.kind, serve(*replies))
    for _ in replies:
        assert _parsed(transcript, await client.ask()) == _expected(transcript)


def _expected(transcript: Transcript):
    calls = [(call_id, name, arguments) for call_id, name, arguments in transcript.calls]
    usage = tuple(transcript.usage)
    return {
        "text": transcript.text,
        "thinking": transcript.thinking,
        "calls": calls,
        "seals": list(transcript.seals) or [...] * transcript.sealed,
        "folds": list(transcript.folds),
        "stop": transcript.stop,
        "usage": usage,
        "error": transcript.error,
        "words": transcript.words,
    }


def _parsed(transcript: Transcript, events):
    assembler = Assembler()
    for event in events[:-1]:
        assert not isinstance(event, StreamDone | StreamError)
        list(assembler.feed(event))
    list(assembler.close())
    last = events[-1]
    blocks = assembler.blocks(with_calls=isinstance(last, StreamDone))
    calls = [block for block in blocks if isinstance(block, ToolCallBlock)]
    ids = ["*"] * len(calls)
    for at, (call_id, *_) in enumerate(transcript.calls[: len(calls)]):
        ids[at] = calls[at].id if call_id != "*" else call_id
    found = {
        "text": "".join(block.text for block in blocks if isinstance(block, TextBlock)),
        "thinking": "".join(block.text for block in blocks if isinstance(block, ThinkingBlock)),
        "calls": [(i, call.name, call.arguments) for i, call in zip(ids, calls, strict=True)],
        "seals": [... if transcript.sealed else seal for block in blocks if (seal := _seal(block))],
        "folds": [dict(block.data) for block in blocks if isinstance(block, CompactionBlock)],
        "stop": "",
        "usage": (),
        "error": "",
        "words": "",
    }
    if isinstance(last, StreamError):
        found |= {"error": last.error.kind}
        found |= {
            "words": transcript.words
            if transcript.words in last.error.message
            else last.error.message
        }
        return found
    assert isinstance(last, StreamDone)
    used = last.usage
    if used is not None:
        found["usage"] = (used.input, used.output, used.cache_read, used.cache_write)
    return {**found, "stop": last.stop_reason}


def _seal(block):
    return (block.signature or block.redacted) if isinstance(block, ThinkingBlock) else None
