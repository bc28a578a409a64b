"""The first provider: a few questions, one test request, and it is written down."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, Protocol

from dirge_py.errors import DirgeError
from dirge_py.slash.base import Choice, Tone
from dirge_py.wiring.offers import Draft, Offer, SetupService

Ending = Literal["stored", "demo", "given up"]

_TYPE_IT = "\n type"
_DEMO = "\n demo"
"""No service and no model is called like this."""


class Say(Protocol):
    """Tells the person something."""

    def __call__(self, text: str, *, tone: Tone = "plain") -> None: ...


class Desk(Protocol):
    """Where the questions are asked."""

    async def pick(self, title: str, choices: Sequence[Choice], current: str) -> str | None: ...
    async def ask_line(
        self, title: str, *, value: str = "", hidden: bool = False
    ) -> str | None: ...


async def set_up(
    desk: Desk, say: Say, service: SetupService, why: str, *, has_demo: bool
) -> Ending:
    """Ask until a provider works and is stored, or the person would rather not.

    `has_demo`: seeing the demo is one of the answers.

    Raises:
        ConfigError, FileError: it cannot be stored.
    """
    say(why, tone="warning")
    while True:
        offers = await service.offers()
        chosen = await desk.pick("Which provider? Typing narrows.", _lines(offers, has_demo), "")
        if chosen == _DEMO:
            return "demo"
        draft = await _fill_in(desk, say, service, offers[int(chosen)]) if chosen else None
        if draft is None:
            return "given up"
        say(f"One test request to {draft.type}, model {draft.model} …")
        try:
            say(await service.try_out(draft), tone="good")
        except DirgeError as error:
            say("\n".join(p for p in (error.message, error.hint) if p), tone="error")
            if not await _keep_anyway(desk):
                continue
        say(f"Stored in {service.save(draft)}.", tone="good")
        return "stored"


def _lines(offers: Sequence[Offer], has_demo: bool) -> Sequence[Choice]:
    choices = [
        Choice(id=str(at), label=offer.label, detail=_standing(offer))
        for at, offer in enumerate(offers)
    ]
    demo = Choice(id=_DEMO, label="See it work without a model", detail="plays `dirge demo`")
    return [*choices, demo] if has_demo else choices


def _standing(offer: Offer) -> str:
    if offer.standing == "found":
        number = len(offer.models)
        return f"answers at {offer.base_url}, {number} model{'' if number == 1 else 's'}"
    if offer.standing == "key":
        return f"{_set_key(offer)} is set"
    return offer.base_url


def _set_key(offer: Offer) -> str | None:
    return next((name for name in offer.key_env if os.environ.get(name)), None)


async def _fill_in(desk: Desk, say: Say, service: SetupService, offer: Offer) -> Draft | None:
    draft: Draft | None = Draft(type=offer.type, model="", base_url=offer.base_url)
    if offer.standing != "found":
        url = await desk.ask_line("Base URL", value=offer.base_url)
        if url is None:
            return None
        draft = Draft(type=offer.type, model="", base_url=url.strip())
        if offer.needs_key:
            draft = await _with_key(desk, offer, draft)
    if draft is None:
        return None
    models = offer.models or await _listed(say, service, draft)
    model = await _model(desk, offer, models)
    return replace(draft, model=model) if model else None


async def _with_key(desk: Desk, offer: Offer, draft: Draft) -> Draft | None:
    choices = [
        Choice(id=name, label=f"${name}", detail="is set" if os.environ.get(name) else "not set")
        for name in offer.key_env
    ]
    choices.append(Choice(id=_TYPE_IT, label="type it", detail="kept in a file only you can read"))
    chosen = await desk.pick("Where is the key?", choices, _set_key(offer) or _TYPE_IT)
    if chosen is None:
        return None
    if chosen != _TYPE_IT:
        return replace(draft, key_env=chosen)
    key = await desk.ask_line("Key (it is not shown)", hidden=True)
    return replace(draft, key=key.strip()) if key and key.strip() else None


async def _listed(say: Say, service: SetupService, draft: Draft) -> Sequence[str]:
    """What the service lists; nothing where it does not, which is no reason to give up."""
    try:
        return await service.models(draft)
    except DirgeError as error:
        say(f"No list of models: {error.message}")
        return ()


async def _model(desk: Desk, offer: Offer, models: Sequence[str]) -> str | None:
    """The model's id, picked or typed; None or nothing if the person would rather not."""
    if models:
        usual = offer.model if offer.model in models else models[0]
        choices = [Choice(id=_TYPE_IT, label="another one", detail="its id is typed")]
        choices[:0] = [Choice(id=model, label=model) for model in models]
        chosen = await desk.pick("Which model? Typing narrows.", choices, usual)
        if chosen != _TYPE_IT:
            return chosen
    typed = await desk.ask_line("Model id", value=offer.model)
    return typed.strip() if typed else None


async def _keep_anyway(desk: Desk) -> bool:
    choices = [
        Choice(id="again", label="fill it in again"),
        Choice(id="keep", label="keep it anyway"),
    ]
    return await desk.pick("The test request did not work.", choices, "again") == "keep"
