"""OpenAI's Responses, and services that speak it."""

import re
import secrets
from functools import partial

from dirge_py.providers.adapter import Call, Wire, stream_fn
from dirge_py.providers.base import Provider, ProviderSettings, model_id
from dirge_py.providers.client import HttpClient
from dirge_py.providers.coping import Learns, asked_again
from dirge_py.providers.headers import bearer
from dirge_py.providers.responses_answer import ResponsesAnswer
from dirge_py.providers.responses_input import seals_of
from dirge_py.providers.responses_request import Refused, responses_request
from dirge_py.types.errors import ProviderError
from dirge_py.types.llm import LlmContext, StreamFn, StreamOptions

BASE_URL = "https://api.openai.com/v1"
KEY_ENV = ("OPENAI_API_KEY",)

_NO_SUMMARIES = re.compile(r"reasoning[._ ]summar", re.IGNORECASE)
_UNREADABLE = re.compile(
    r"invalid_encrypted_content|encrypted content\b.{0,400}\bcould not be"
    r"|items are not persisted|without its required",
    re.IGNORECASE | re.DOTALL,
)


def _answer(call: Call) -> ResponsesAnswer:
    return ResponsesAnswer(call.used_ids(), secrets.token_hex(6))


def _make(settings: ProviderSettings, http: HttpClient) -> StreamFn:
    refused = Refused()
    wire = Wire(
        default_base_url=BASE_URL,
        path=lambda call: "/responses",
        history="input",
        key_env=KEY_ENV,
        headers=lambda call: bearer(call.key),
        body=partial(responses_request, refused=refused),
        translator=_answer,
    )
    return asked_again(stream_fn(wire, settings, http), _learning(settings.alias, refused))


def _learning(alias: str, refused: Refused) -> Learns:
    """Notes in `refused` what a service did not take, so that no session ends at it.

    Accounts that did not prove who they are get no summaries of thoughts, and what one account's
    models thought cannot be read under the key of another.
    """

    def learns(error: ProviderError, context: LlmContext, options: StreamOptions) -> bool:
        if error.kind != "invalid_request" or error.phase != "establish":
            return False
        told = f"{error.message} {error.raw}"
        before = len(refused.summaries) + len(refused.seals)
        if options.thinking_level != "off" and _NO_SUMMARIES.search(told):
            refused.summaries.add(model_id(options.model))
        if _UNREADABLE.search(told):
            refused.seals.update(seals_of(context.messages, alias))
        return len(refused.summaries) + len(refused.seals) > before

    return learns


PROVIDER = Provider(
    name="openai-responses",
    make=_make,
    default_base_url=BASE_URL,
    base_url_env="OPENAI_BASE_URL",
    key_env=KEY_ENV,
)
