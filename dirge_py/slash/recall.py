"""`/recall`: finds what was said in the sessions of this project, and noted in memory."""

import asyncio
from contextlib import suppress
from typing import TypeAlias, get_args

from dirge_py.conversation.conversation import Conversation
from dirge_py.extensions.memory.extension import Memory
from dirge_py.lib.text import plural, truncate, visible
from dirge_py.session.ids import project_id
from dirge_py.session.index.session_index import SearchMatch, SearchQuery, SessionIndex
from dirge_py.session.index.vectors import (
    likeness,
    read_vectors,
    text_key,
    unit_vector,
    vector_file,
    write_vectors,
)
from dirge_py.slash.base import FrontEnd, command
from dirge_py.slash.session import folder_of_state
from dirge_py.types.errors import ConfigError, FileError, UsageError
from dirge_py.types.memory import StoreName
from dirge_py.types.messages import AssistantMessage, UserMessage

_UNSTORED = "session this, now, text"
"""The place of texts of a session that is not stored."""
_Passage: TypeAlias = tuple[str, str]
"""Where a part of a text is, for people, and the part, on one line."""
_KINDS = ("prompt", "answer", "summary")
"""The kinds of texts that are embedded: results would be many, and are in the files anyway."""
_MOST_PASSAGES = 4_000
_TEXTS_AT_ONCE = 256
"""OpenAI takes 300,000 tokens in one request (its API reference, `input` of embeddings)."""
_PASSAGE_CHARS = 1_500
"""Longer texts are split: models of embeddings take a few thousand tokens, some only 500."""
_MOST_SHOWN = 8
_SHOWN_CHARS = 200
_USAGE = "/recall WORDS searches by words, /recall --semantic TEXT by meaning."


@command(
    "recall",
    "search this project's sessions and memory; --semantic: by meaning",
    usage="[--semantic [--model [ALIAS/]ID]] TEXT",
    while_running="yes",
    headless=True,
)
async def recall(args: str, conversation: Conversation, front: FrontEnd) -> None:
    words = args.split()
    is_semantic, model = False, ""
    while words and words[0].startswith("--"):
        flag = words.pop(0)
        if flag == "--semantic":
            is_semantic = True
        elif flag == "--model" and words:
            model = words.pop(0)
        else:
            raise UsageError(
                f"/recall doesn't take {flag!r}, or its value is missing.", hint=_USAGE
            )
    if not words:
        raise UsageError("What do you want to recall?", hint=_USAGE)
    if model and not is_semantic:
        raise UsageError("--model needs --semantic.", hint=_USAGE)
    if is_semantic:
        front.show(await _by_meaning(" ".join(words), model, conversation, front))
        return
    query = SearchQuery(words)
    lines = [_line(p, text) for p, text in await _noted(conversation) if query.matches(text)]
    matches = await asyncio.to_thread(_index(conversation).search, words, limit=_MOST_SHOWN)
    lines += [f"{_place(match)}\n  {visible(match.snippet)}" for match in matches]
    front.show("\n".join(lines) or "Nothing found. /recall --semantic TEXT searches by meaning.")


async def _by_meaning(text: str, model: str, conversation: Conversation, front: FrontEnd) -> str:
    """What is nearest in meaning. Raises ConfigError or ProviderError: there are no embeddings."""
    embed = conversation.session.embed
    if embed is None:
        raise UsageError("This conversation has no settings for embeddings.", hint=_USAGE)
    passages = [*await _noted(conversation), *await _said(conversation)]
    places = {text: place for place, text in passages}
    if not places:
        return "Nothing to search yet: this project has no sessions and no notes."
    try:
        answer = await embed([text], model=model, notice=front.show)
    except ConfigError as error:
        hint = error.hint.replace("`--provider`", "`/recall --semantic --model ALIAS/ID TEXT`")
        hint = f"{hint} /recall TEXT searches by words.".strip()
        raise ConfigError(error.message, hint=hint) from error
    wanted = unit_vector(answer.embeddings[0])
    folder = folder_of_state(conversation) / "vectors"
    file = vector_file(folder, project_id(conversation.cwd), answer.model)
    keys = {text: text_key(text) for text in list(places)[:_MOST_PASSAGES]}
    known = (await asyncio.to_thread(read_vectors, file)).items()
    # Only what can be compared: the service may have replaced the model.
    used = {*keys.values()}
    vectors = {key: v for key, v in known if key in used and len(v) == len(wanted)}
    new = [each for each, key in keys.items() if key not in vectors]
    if new:
        front.show(f"Requesting embeddings from {answer.model} for {plural(len(new), 'text')}.")
    try:
        for start in range(0, len(new), _TEXTS_AT_ONCE):
            batch = new[start : start + _TEXTS_AT_ONCE]
            rows = (await embed(batch, model=model, notice=front.show)).embeddings
            vectors |= {keys[t]: unit_vector(row) for t, row in zip(batch, rows, strict=True)}
    finally:
        if new and vectors:
            # Nothing about a session that is not stored.
            stored = {key for text, key in keys.items() if places[text] != _UNSTORED}
            kept = {key: vector for key, vector in vectors.items() if key in stored}
            if kept:
                with suppress(OSError, FileError):  # They only save asking for them again.
                    await asyncio.to_thread(write_vectors, file, kept)
    scores = await asyncio.to_thread(
        lambda: {each: likeness(wanted, vectors[key]) for each, key in keys.items()}
    )
    ranked = sorted(keys, key=lambda text: -scores[text])[:_MOST_SHOWN]
    lines = [f"{scores[text]:.2f}  {_line(places[text], text)}" for text in ranked]
    return "\n".join([f"Nearest in meaning, by {answer.model} (1.00 is the same):", *lines])


async def _noted(conversation: Conversation) -> list[_Passage]:
    memory = conversation.extension(Memory)
    if memory is None:
        return []
    provider = memory.provider
    return [
        (f"memory: {provider.where(store)}", line.strip())
        for store in get_args(StoreName)
        for line in (await provider.read(store)).splitlines()
        if line.strip()
    ]


async def _said(conversation: Conversation) -> list[_Passage]:
    """The texts of all sessions of the project, the newest first, in pieces."""
    matches = await asyncio.to_thread(_index(conversation).newest_texts, _KINDS, _MOST_PASSAGES)
    texts = [(_place(match), match.snippet) for match in matches]
    if conversation.session_id is None:
        # This session is not stored.
        own = [m for m in conversation.messages if isinstance(m, UserMessage | AssistantMessage)]
        texts = [(_UNSTORED, " ".join(m.text.split())) for m in own] + texts
    return [
        (place, text[start : start + _PASSAGE_CHARS])
        for place, text in texts
        for start in range(0, len(text), _PASSAGE_CHARS)
    ]


def _index(conversation: Conversation) -> SessionIndex:
    return SessionIndex(folder_of_state(conversation), project_id(conversation.cwd))


def _place(match: SearchMatch) -> str:
    return f"session {match.session_id}, {match.at[:10]}, {match.kind}"


def _line(place: str, text: str) -> str:
    return f"{visible(place)}\n  {visible(truncate(text, _SHOWN_CHARS))}"
