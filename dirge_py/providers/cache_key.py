"""A key that requests with the same beginning have in common.

Some services look for a request's beginning only in the cache that the key leads to.
"""

import hashlib

from dirge_py.types.llm import LlmContext, SystemText
from dirge_py.types.messages import UserMessage


def cache_key(context: LlmContext) -> str:
    """Of the beginning that stays: the same for a whole conversation, until it is folded."""
    prompt = context.system_prompt
    stable = prompt.stable_chars if isinstance(prompt, SystemText) else len(prompt)
    asked = (message.text for message in context.messages if isinstance(message, UserMessage))
    first = next(asked, "")
    beginning = f"{prompt[:stable]}\0{first}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(beginning).hexdigest()[:32]
