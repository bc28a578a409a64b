"""The setup of a provider: its address, key, model and name, one test request, and saving it."""

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, Protocol, get_args
from urllib.parse import urlsplit

from dirge_py.config.services import base_url_problem, is_loopback
from dirge_py.providers.settings import ProviderChoice, ProviderDraft, SetupService
from dirge_py.slash.base import Choice, Tone
from dirge_py.types.errors import DirgeError, ProviderError

_TYPE_IT = "\n type"
_NAME_IT = "\n name"
_NONE = "\n none"
"""No model and no variable is called like these."""
_REQUEST_PATHS = re.compile(r"/(chat/completions|responses|models|completions)?/*$")
_NAME = re.compile(r"[A-Za-z0-9_-]+")

_Step = Literal["address", "key", "model", "leave"]
Ending = Literal["stored", "demo", "given up"]
_DEMO = "\n demo"
"""No service is called like this."""


class Notify(Protocol):
    """Tells the person something."""

    def __call__(self, text: str, *, tone: Tone = "plain") -> None: ...


class Prompter(Protocol):
    """Where the questions are asked."""

    async def pick(self, title: str, choices: Sequence[Choice], current: str) -> str | None: ...
    async def ask_line(
        self, title: str, *, value: str = "", hidden: bool = False
    ) -> str | None: ...


async def set_up(
    prompter: Prompter, notify: Notify, service: SetupService, why: str, *, has_demo: bool
) -> Ending:
    """Ask until a provider works and is stored, or the person would rather not.

    Whoever leaves a question goes back to the list of providers; whoever leaves that gives up.
    `has_demo`: seeing the demo is one of the answers.

    Raises:
        ConfigError, FileError: it cannot be stored.
    """
    if why:
        notify(why, tone="warning")
    while True:
        offers = await service.offers()
        lines = _offer_choices(offers, has_demo)
        chosen = await prompter.pick(f"Choose a provider ({len(lines)}, type to filter)", lines, "")
        if chosen is None:
            return "given up"
        if chosen == _DEMO:
            return "demo"
        offer = offers[int(chosen)]
        draft = await _working_draft(prompter, notify, service, offer)
        if draft is not None and offer.is_own:
            draft = await with_name(prompter, notify, draft)
        if draft is not None:
            if service.replaces(draft):
                notify(f"The settings had a provider {draft.alias}, which this one replaces.")
            notify(f"Stored in {service.save(draft)}.", tone="good")
            return "stored"


async def _working_draft(
    prompter: Prompter, notify: Notify, service: SetupService, offer: ProviderChoice
) -> ProviderDraft | None:
    """One that answered, or is kept all the same; None if the person would rather not."""
    while (draft := await fill_in(prompter, notify, service, offer)) is not None:
        whom = draft.alias if offer.is_own else offer.label
        notify(f"One test request to {whom}, model {draft.model} …")
        try:
            notify(await service.try_out(draft), tone="good")
        except DirgeError as error:
            notify(error_text(error), tone="error")
            answer = await _after_failure(prompter)
            if answer is None:
                return None
            if answer == "again":
                offer = replace(offer, base_url=draft.base_url, model=draft.model)
                continue
        return draft
    return None


def _offer_choices(offers: Sequence[ProviderChoice], has_demo: bool) -> Sequence[Choice]:
    """What is at hand, what anybody could use, and then the long list."""
    demo = Choice(id=_DEMO, label="See it work without a model", detail="plays `dirge demo`")
    choices = [
        Choice(id=str(at), label=offer.label, detail=_offer_detail(offer))
        for at, offer in enumerate(offers)
    ]
    after_own = 1 + max((at for at, offer in enumerate(offers) if offer.is_own), default=-1)
    return [*choices[:after_own], *([demo] if has_demo else []), *choices[after_own:]]


def _offer_detail(offer: ProviderChoice) -> str:
    if offer.standing == "found":
        number = len(offer.models)
        return f"answers at {offer.base_url}, {number} model{'' if number == 1 else 's'}"
    if offer.standing == "key":
        return f"{set_key(offer)} is set"
    if offer.is_own:
        return "OpenAI-compatible; you enter its URL"
    return offer.base_url if offer.needs_key else f"does not answer at {offer.base_url}"


async def _after_failure(prompter: Prompter) -> str | None:
    choices = [
        Choice(id="again", label="fill it in again"),
        Choice(id="keep", label="keep it anyway"),
    ]
    return await prompter.pick("The test request did not work.", choices, "again")


async def fill_in(
    prompter: Prompter, notify: Notify, service: SetupService, offer: ProviderChoice
) -> ProviderDraft | None:
    """What the person says of `offer`; None if they would rather not. Its name is open still."""
    draft: ProviderDraft | None = ProviderDraft(
        type=offer.type, alias=offer.type, base_url=offer.base_url
    )
    models = offer.models
    if draft and offer.standing != "found":
        draft, models = await _reach_provider(prompter, notify, service, offer, draft)
    model = await _model(prompter, offer, models) if draft else None
    return replace(draft, model=model) if draft and model else None


async def _reach_provider(
    prompter: Prompter,
    notify: Notify,
    service: SetupService,
    offer: ProviderChoice,
    draft: ProviderDraft,
) -> tuple[ProviderDraft | None, tuple[str, ...]]:
    """With the address and the key that are to be used, and the models that it lists."""
    step: _Step = "address"
    while step != "model":
        at: ProviderDraft | None = draft
        if step == "address":
            at = await _with_address(prompter, notify, offer, draft)
        if at and _asks_for_key(offer):
            at = await _with_key(prompter, offer, at)
        if at is None:
            return None, ()
        draft = at
        models, step = await _listed(prompter, notify, service, offer, draft)
        if step == "leave":
            return None, ()
    return draft, models


def set_key(offer: ProviderChoice) -> str | None:
    """The variable that holds its key."""
    return next((name for name in offer.key_env if os.environ.get(name)), None)


def error_text(error: DirgeError) -> str:
    """What went wrong, and what to do."""
    return "\n".join(part for part in (error.message, error.hint) if part)


async def _with_address(
    prompter: Prompter, notify: Notify, offer: ProviderChoice, draft: ProviderDraft
) -> ProviderDraft | None:
    typed = f"{draft.base_url}/v1" if _is_bare(offer, draft) else draft.base_url
    while True:
        title = "Base URL, as in https://llm.example.com/v1" if offer.is_own else "Base URL"
        given = await prompter.ask_line(title, value=typed)
        if given is None:
            return None
        typed = tidy_url(given)
        alias = usual_name(typed) if offer.is_own else draft.alias
        draft = replace(draft, alias=alias, base_url=typed, allow_insecure=False)
        if (problem := base_url_problem(typed)) is None:
            return draft
        if base_url_problem(typed, allow_insecure=True) is not None:
            if typed:
                notify(f"{typed}: {problem}.", tone="error")
            continue
        answer = await _unencrypted(prompter, urlsplit(typed).hostname or "")
        if answer == "use":
            return replace(draft, allow_insecure=True)
        if answer is None:
            return None


def tidy_url(typed: str) -> str:
    """The base URL that was meant: without the path of a request, with a scheme."""
    url = _REQUEST_PATHS.sub("", typed.strip())
    if not url or "://" in url:
        return url
    host = urlsplit(f"//{url}").hostname or ""
    return f"{'http' if is_loopback(host) else 'https'}://{url}"


async def _unencrypted(prompter: Prompter, host: str) -> str | None:
    choices = [
        Choice(id="other", label="another address"),
        Choice(id="use", label="use it all the same", detail="stores allow_insecure = true"),
    ]
    title = f"Whoever is between here and {host} can read the key and all that is said."
    return await prompter.pick(title, choices, "other")


def _asks_for_key(offer: ProviderChoice) -> bool:
    return offer.needs_key or offer.is_own


async def _with_key(
    prompter: Prompter, offer: ProviderChoice, draft: ProviderDraft
) -> ProviderDraft | None:
    if not _asks_for_key(offer):
        return draft
    choices = [
        Choice(id=name, label=f"${name}", detail="is set" if os.environ.get(name) else "not set")
        for name in offer.key_env
    ]
    choices.append(Choice(id=_TYPE_IT, label="type it", detail="kept in a file only you can read"))
    if offer.is_own:
        choices.append(Choice(id=_NAME_IT, label="in another variable", detail="its name is typed"))
    if offer.is_own and is_loopback(urlsplit(draft.base_url).hostname or ""):
        choices.append(Choice(id=_NONE, label="it wants none"))
    chosen = await prompter.pick("Where is the key?", choices, set_key(offer) or _TYPE_IT)
    draft = replace(draft, key="", key_env="")
    if chosen is None or chosen == _NONE:
        return draft if chosen else None
    if chosen == _TYPE_IT:
        key = (await prompter.ask_line("Key (it is not shown)", hidden=True) or "").strip()
        return replace(draft, key=key) if key else None
    if chosen == _NAME_IT:
        chosen = (await prompter.ask_line("Variable") or "").strip().removeprefix("$")
    return replace(draft, key_env=chosen) if chosen else None


async def _listed(
    prompter: Prompter,
    notify: Notify,
    service: SetupService,
    offer: ProviderChoice,
    draft: ProviderDraft,
) -> tuple[tuple[str, ...], _Step]:
    """What the service lists, and what comes next. No list is no reason to give up."""
    notify("Asking for its models …")
    try:
        return tuple(await service.models(draft)), "model"
    except DirgeError as error:
        notify(f"No list of models: {error_text(error)}", tone="error")
        failure = error
    title, other = _way_out(offer, draft, failure)
    if other is None:
        return (), "model"
    on = Choice(id="model", label="go on with this one", detail="the model's id is typed")
    answer = await prompter.pick(title, [other, on], other.id)
    return (), next((step for step in get_args(_Step) if step == answer), "leave")


def _way_out(
    offer: ProviderChoice, draft: ProviderDraft, error: DirgeError
) -> tuple[str, Choice | None]:
    """What can be mended before a model is asked for, as a question; None: nothing."""
    if not isinstance(error, ProviderError):
        return "", None
    if error.status == 401 and _asks_for_key(offer):
        return "The key was refused.", Choice(id="key", label="another key")
    if error.kind in ("network", "proxy_page") or (error.status == 404 and _is_bare(offer, draft)):
        title = "That URL isn't a model API."
        if error.kind == "network":
            title = f"No response from {urlsplit(draft.base_url).netloc}."
        return title, Choice(id="address", label="another address")
    return "", None


def _is_bare(offer: ProviderChoice, draft: ProviderDraft) -> bool:
    """Whether the version may have been forgotten, with which most such addresses end."""
    return offer.is_own and bool(draft.base_url) and not urlsplit(draft.base_url).path


async def _model(prompter: Prompter, offer: ProviderChoice, models: Sequence[str]) -> str | None:
    """The model's id, picked or typed; None or nothing if the person would rather not."""
    if models:
        usual = offer.model if offer.model in models else models[0]
        choices = [Choice(id=_TYPE_IT, label="another one", detail="its id is typed")]
        choices[:0] = [Choice(id=model, label=model) for model in models]
        title = f"Choose a model ({len(models)}, type to filter)"
        chosen = await prompter.pick(title, choices, usual)
        if chosen != _TYPE_IT:
            return chosen
    typed = await prompter.ask_line("Model id", value=offer.model)
    return typed.strip() if typed else None


async def with_name(
    prompter: Prompter, notify: Notify, draft: ProviderDraft
) -> ProviderDraft | None:
    """The same, called as the person wants it; None if they would rather not."""
    title = f"A name for it, as in NAME/{draft.model}"
    while (name := await prompter.ask_line(title, value=draft.alias)) is not None:
        if _NAME.fullmatch(name.strip()):
            return replace(draft, alias=name.strip())
        notify("A name is of letters, digits, `-` and `_`.", tone="error")
    return None


def usual_name(base_url: str) -> str:
    """What one would call the service at that address: whose it is."""
    host = urlsplit(base_url).hostname or ""
    labels = [label for label in host.split(".") if label]
    if is_loopback(host):
        return "local"
    if ":" in host or not labels or labels[-1].isdecimal():
        return "server"
    name = re.sub(r"[^a-z0-9-]", "", labels[-2 if len(labels) > 1 else 0])
    return name or "server"
