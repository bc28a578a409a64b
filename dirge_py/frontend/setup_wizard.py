"""The setup of a provider: its URL, key, model and name, one test request, and saving it."""

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Protocol, get_args
from urllib.parse import urlsplit

from dirge_py.config.services import SERVICE_OF, base_url_problem, is_key_in_host, is_loopback
from dirge_py.config.sources import ProviderDraft
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.text import plural
from dirge_py.providers.settings import ProviderChoice
from dirge_py.slash.base import Choice, Tone
from dirge_py.types.errors import DirgeError, ProviderError

if TYPE_CHECKING:
    from dirge_py.providers.setup import ProviderSetup


_TYPE_IT = "\n type"
_NAME_IT = "\n name"
_ADDRESS = "\n address"
_NONE = "\n none"
"""Not a possible name of a model or a variable."""
_DEMO = "\n demo"
"""Not a possible name of a service."""
_SHORTEST_KEY = 16
"""Shorter texts are no keys of the known services."""
_DEMO_AT = 4
"""The services that are listed before the demo."""
_REQUEST_PATHS = late_pattern(r"/(chat/completions|responses|models|completions)?/*$")
_KEY_STARTS = ("sk-", "gsk_", "xai-", "AIza")
_OWNER_OF_KEY = {
    "sk-ant-": ("anthropic", "Anthropic"),
    "sk-or-": ("openrouter", "OpenRouter"),
    "sk-proj-": ("openai-responses", "OpenAI"),
    "gsk_": ("groq", "Groq"),
    "xai-": ("xai", "xAI"),
    "AIza": ("gemini", "Google Gemini"),
}
"""Type and name of the service whose keys begin like this; a key is never sent to another one."""
_ASSIGNMENT = late_pattern(r"^(?:export\s+)?[A-Z][A-Z0-9_]*\s*=\s*(?=\S)")
_QUOTED = late_pattern(r"""^(["'`])(.*)\1$""")
_BARE_KEY = late_pattern(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9]{24,}")
_VARIABLE = late_pattern(r"[A-Za-z_][A-Za-z0-9_]*")
_KEY_AT_END = late_pattern(rf"(?:{'|'.join(_KEY_STARTS)})[\w-]{{16,}}$")
_NAME = late_pattern(r"[A-Za-z0-9_-]+")

_Step = Literal["address", "key", "model", "leave"]
Ending = Literal["stored", "demo", "given up"]


class Notify(Protocol):
    """Shows the user a text."""

    def __call__(self, text: str, *, tone: Tone = "plain") -> None: ...


class Prompter(Protocol):
    """Asks the user questions; None if they cancel."""

    async def pick(self, title: str, choices: Sequence[Choice], current: str) -> str | None: ...
    async def ask_line(
        self, title: str, *, value: str = "", hidden: bool = False
    ) -> str | None: ...


async def set_up(
    prompter: Prompter, notify: Notify, service: "ProviderSetup", why: str, *, has_demo: bool
) -> Ending:
    """Ask until a provider works and is stored, or the user cancels. Raises DirgeError."""
    if why:
        notify(why, tone="warning")
    if problem := service.storage_problem():
        notify(problem, tone="error")
    return await _SetupWizard(prompter, notify, service).run(has_demo=has_demo)


class _SetupWizard:
    """The questions; a method that asks returns None if the user cancels."""

    def __init__(self, prompter: Prompter, notify: Notify, service: "ProviderSetup") -> None:
        self._prompter = prompter
        self._notify = notify
        self._service = service

    async def run(self, *, has_demo: bool) -> Ending:
        while True:
            offers = await self._service.offers()
            choices = _offer_choices(offers, has_demo)
            title = f"Choose a provider ({len(choices)}, type to filter)"
            chosen = await self._prompter.pick(title, choices, "")
            if chosen is None or chosen == _DEMO:
                return "demo" if chosen else "given up"
            offer = offers[int(chosen)]
            draft = await self._working_draft(offer)
            if draft is not None and offer.is_own:
                draft = await self._with_name(draft)
            if draft is not None and self._is_saved(draft):
                return "stored"

    def _is_saved(self, draft: ProviderDraft) -> bool:
        """Store the draft; return False after an error, which is shown."""
        try:
            if self._service.replaces(draft):
                self._notify(f"This replaces the provider {draft.alias} in the settings.")
            self._notify(f"Stored in {self._service.save(draft)}.", tone="good")
        except DirgeError as error:
            self._notify(f"{error.message}\n{error.hint}".strip(), tone="error")
            return False
        return True

    async def _ask_open_line(self, title: str, value: str = "") -> str | None:
        """A line that is shown, without blanks around it; asks again if it is a key."""
        while (typed := await self._prompter.ask_line(title, value=value)) is not None:
            if not looks_like_key(typed):
                return typed.strip()
            self._notify("This looks like an API key, which is not asked for here.", tone="error")
        return None

    async def _working_draft(self, offer: ProviderChoice) -> ProviderDraft | None:
        """A provider that passed a test request, or that the user keeps anyway."""
        again = Choice(id="again", label="start over")
        keep = Choice(id="keep", label="keep it anyway")
        while (draft := await self._fill_in(offer)) is not None:
            name = draft.alias if offer.is_own else offer.label
            self._notify(f"Sending a test request to {name}, model {draft.model} …")
            try:
                self._notify(await self._service.try_out(draft), tone="good")
                return draft
            except DirgeError as error:
                self._notify(f"{error.message}\n{error.hint}".strip(), tone="error")
            title = "The test request failed."
            answer = await self._prompter.pick(title, [again, keep], "again")
            if answer != "again":
                return None if answer is None else draft
            offer = replace(offer, base_url=draft.base_url, model=draft.model)
        return None

    async def _fill_in(self, offer: ProviderChoice) -> ProviderDraft | None:
        """The user's values for `offer`, without its name, which is asked later."""
        draft = ProviderDraft(type=offer.type, alias=offer.type, base_url=offer.base_url)
        reached = (draft, offer.models) if offer.standing == "found" else None
        reached = reached or await self._reach(offer, draft)
        model = await self._model(offer, reached[1]) if reached else None
        return replace(reached[0], model=model) if reached and model else None

    async def _reach(
        self, offer: ProviderChoice, draft: ProviderDraft
    ) -> tuple[ProviderDraft, tuple[str, ...]] | None:
        """The draft with its URL and key, and the models that the provider lists."""
        step: _Step = "key" if offer.needs_key and not offer.is_own else "address"
        while True:
            changed = await self._with_address(offer, draft) if step == "address" else draft
            if changed and (offer.needs_key or offer.is_own):
                changed = await self._with_key(offer, changed)
            if changed is None:
                return None
            draft = changed
            models, step = await self._list_models(offer, draft)
            if step in ("model", "leave"):
                return (draft, models) if step == "model" else None

    async def _with_address(
        self, offer: ProviderChoice, draft: ProviderDraft
    ) -> ProviderDraft | None:
        url = f"{draft.base_url}/v1" if _is_bare(offer, draft) else draft.base_url
        title = "Base URL, as in https://llm.example.com/v1" if offer.is_own else "Base URL"
        while (typed := await self._prompter.ask_line(title, value=url)) is not None:
            if _holds_key(typed):
                self._notify("This contains an API key. Enter only the URL here.", tone="error")
                continue
            url = tidy_url(typed)
            alias = usual_name(url) if offer.is_own else draft.alias
            draft = replace(draft, alias=alias, base_url=url, allow_insecure=False)
            problem = base_url_problem(url)
            if problem is None:
                return draft
            if base_url_problem(url, allow_insecure=True) is not None:
                if url:
                    self._notify(f"{url}: {problem}.", tone="error")
                continue
            other = Choice(id="other", label="another URL")
            use = Choice(id="use", label="use it anyway", detail="stores allow_insecure = true")
            host = urlsplit(url).hostname or ""
            warning = f"Anyone between here and {host} can read the key and all messages."
            answer = await self._prompter.pick(warning, [other, use], "other")
            if answer != "other":
                return replace(draft, allow_insecure=True) if answer else None
        return None

    async def _with_key(self, offer: ProviderChoice, draft: ProviderDraft) -> ProviderDraft | None:
        """The draft with a key; that of a known service may get another address, too."""
        draft = replace(draft, key="", key_env="")
        is_known = offer.needs_key and not offer.is_own
        if is_known and _variable_of(offer) is None:
            title = f"API key for {offer.label} (hidden; Enter alone: other ways)"
            key = await self._typed_key(title, offer, draft)
            if key is None or key:
                return replace(draft, key=key) if key else None
        while True:
            chosen = await self._way_to_key(offer, draft)
            if chosen is None or chosen == _NONE:
                return draft if chosen else None
            if chosen == _ADDRESS:
                draft = await self._with_address(offer, draft) or draft
                continue
            if chosen == _TYPE_IT:
                key = await self._typed_key("API key (hidden)", offer, draft)
                return replace(draft, key=key) if key else None
            if chosen == _NAME_IT:
                chosen = await self._variable()
            return replace(draft, key_env=chosen) if chosen else None

    async def _variable(self) -> str:
        """The name of an environment variable; "" if the user cancels."""
        while typed := (await self._ask_open_line("Variable") or "").removeprefix("$"):
            if _VARIABLE.fullmatch(typed):
                return typed
            self._notify("Enter the name of a variable, such as CORP_API_KEY.", tone="error")
        return ""

    async def _way_to_key(self, offer: ProviderChoice, draft: ProviderDraft) -> str | None:
        ways = {n: (f"${n}", "is set" if os.environ.get(n) else "not set") for n in offer.key_env}
        ways[_TYPE_IT] = "type it", "stored in a file only you can read"
        if offer.is_own:
            ways[_NAME_IT] = "in another variable", "enter its name"
        else:
            ways[_ADDRESS] = "advanced: another URL", f"instead of {draft.base_url}"
        if offer.is_own and is_loopback(urlsplit(draft.base_url).hostname or ""):
            ways[_NONE] = "no key needed", ""
        choices = [Choice(id=way, label=label, detail=note) for way, (label, note) in ways.items()]
        return await self._prompter.pick(
            "Where is the key?", choices, _variable_of(offer) or _TYPE_IT
        )

    async def _typed_key(
        self, title: str, offer: ProviderChoice, draft: ProviderDraft
    ) -> str | None:
        """The key, asked for until its form is right; "" for none, None if the user cancels."""
        is_at_home = not offer.is_own and draft.base_url == offer.base_url
        while (typed := await self._prompter.ask_line(title, hidden=True)) is not None:
            key = tidy_key(typed)
            problem = key_problem(key, _SHORTEST_KEY if is_at_home else 1) if key else ""
            is_usual = is_at_home and draft.base_url == SERVICE_OF[offer.type].base_url
            owner = _owner_of(key) if is_usual else None
            if not problem and owner and owner[0] != offer.type:
                problem = f"This is a key of {owner[1]}, not of {offer.label}. It was not sent."
            if not problem:
                return key
            self._notify(problem, tone="error")
        return None

    async def _list_models(
        self, offer: ProviderChoice, draft: ProviderDraft
    ) -> tuple[tuple[str, ...], _Step]:
        """The models that the service lists, and the next step. Works without a list, too."""
        self._notify("Fetching its models …")
        try:
            return tuple(await self._service.models(draft)), "model"
        except DirgeError as error:
            text = f"{error.message}\n{error.hint}"
            self._notify(text.strip(), tone="error")
            failure = error
        title, other = _way_out(offer, draft, failure)
        if other is None:
            return (), "model"
        skip = Choice(id="model", label="continue with this one", detail="enter the model's id")
        answer = await self._prompter.pick(title, [other, skip], other.id)
        return (), next((step for step in get_args(_Step) if step == answer), "leave")

    async def _model(self, offer: ProviderChoice, models: Sequence[str]) -> str | None:
        """The model's id, picked or typed; None or "" if the user cancels."""
        if models:
            usual = offer.model if offer.model in models else models[0]
            choices = [Choice(id=model, label=model) for model in models]
            choices.append(Choice(id=_TYPE_IT, label="another one", detail="enter its id"))
            title = f"Choose a model ({len(models)}, type to filter)"
            chosen = await self._prompter.pick(title, choices, usual)
            if chosen != _TYPE_IT:
                return chosen
        return await self._ask_open_line("Model id", offer.model)

    async def _with_name(self, draft: ProviderDraft) -> ProviderDraft | None:
        title = f"Name for this provider, as in NAME/{draft.model}"
        while (name := await self._ask_open_line(title, draft.alias)) is not None:
            if _NAME.fullmatch(name):
                return replace(draft, alias=name)
            self._notify("Use letters, digits, `-` and `_` only.", tone="error")
        return None


def _offer_choices(offers: Sequence[ProviderChoice], has_demo: bool) -> Sequence[Choice]:
    """The offers in their order; the demo is among the first."""
    choices = [
        Choice(id=str(at), label=offer.label, detail=_offer_detail(offer))
        for at, offer in enumerate(offers)
    ]
    if has_demo:
        demo = Choice(id=_DEMO, label="Try it without a model", detail="runs `dirge demo`")
        at_hand = sum(offer.standing != "known" for offer in offers)
        choices.insert(at_hand or _DEMO_AT, demo)
    return choices


def _offer_detail(offer: ProviderChoice) -> str:
    if offer.standing == "found":
        return f"answers at {offer.base_url}, {plural(len(offer.models), 'model')}"
    if offer.standing == "key":
        return f"{_variable_of(offer)} is set"
    if offer.is_own:
        return "OpenAI-compatible; you'll enter its URL"
    return offer.base_url if offer.needs_key else f"does not answer at {offer.base_url}"


def _way_out(
    offer: ProviderChoice, draft: ProviderDraft, error: DirgeError
) -> tuple[str, Choice | None]:
    """The problem, and the choice that corrects it before the model question; None if none does."""
    if not isinstance(error, ProviderError):
        return "", None
    if error.status == 401 and (offer.needs_key or offer.is_own):
        return "The key was refused.", Choice(id="key", label="another key")
    if error.kind in ("network", "proxy_page") or (error.status == 404 and _is_bare(offer, draft)):
        host = urlsplit(draft.base_url).hostname or draft.base_url
        is_silent = error.kind == "network"
        title = f"No response from {host}." if is_silent else "That URL isn't a model API."
        return title, Choice(id="address", label="another URL")
    return "", None


def _variable_of(offer: ProviderChoice) -> str | None:
    return next(filter(os.environ.get, offer.key_env), None)


def _is_bare(offer: ProviderChoice, draft: ProviderDraft) -> bool:
    """Whether the URL may be missing the version at its end."""
    return offer.is_own and bool(draft.base_url) and not urlsplit(draft.base_url).path


def _holds_key(address: str) -> bool:
    """Whether a key was pasted in the place of an address, or behind one."""
    typed = address.strip()
    is_bare = typed.startswith(_KEY_STARTS) and "/" not in typed
    host = re.sub(r"^.*?://", "", typed).partition("/")[0].partition(":")[0]
    return is_bare or bool(_KEY_AT_END.search(typed)) or is_key_in_host(host)


def looks_like_key(typed: str) -> bool:
    """Whether a text is probably an API key, also in quotes or with the name of its variable."""
    key = tidy_key(typed)
    if " " in key or len(key) < _SHORTEST_KEY:
        return False
    return key.startswith(_KEY_STARTS) or bool(_BARE_KEY.fullmatch(key))


def tidy_key(typed: str) -> str:
    """A pasted key without `export NAME=`, `Bearer` and quotes."""
    key = _ASSIGNMENT.sub("", typed.strip()).rstrip(",;")
    if quoted := _QUOTED.match(key):
        key = quoted[2]
    return key.strip().removeprefix("Bearer ").strip()


def _owner_of(key: str) -> tuple[str, str] | None:
    return next((each for start, each in _OWNER_OF_KEY.items() if key.startswith(start)), None)


def key_problem(key: str, shortest: int) -> str:
    """Why this can't be an API key, as text; "" if it can. It never contains the key."""
    if "://" in key:
        return "This is a URL, not a key."
    if key.startswith("$") or "=" in key.rstrip("="):
        return "Enter the key itself, not the name of a variable."
    if not (key.isascii() and key.isprintable()) or " " in key:
        return "A key has only ASCII characters, and no spaces."
    if len(key) < shortest:
        return f"This is too short for a key: {plural(len(key), 'character')}."
    return ""


def tidy_url(typed: str) -> str:
    """The base URL without the path of a request, and with a scheme."""
    url = _REQUEST_PATHS.sub("", typed.strip())
    if not url or "://" in url:
        return url
    host = urlsplit(f"//{url}").hostname or ""
    return f"{'http' if is_loopback(host) else 'https'}://{url}"


def usual_name(base_url: str) -> str:
    """The usual name of the service at that URL, from its host."""
    host = urlsplit(base_url).hostname or ""
    labels = [label for label in host.split(".") if label]
    if is_loopback(host):
        return "local"
    if ":" in host or not labels or labels[-1].isdecimal():
        return "server"
    name = re.sub(r"[^a-z0-9-]", "", labels[-2 if len(labels) > 1 else 0])
    return name or "server"
