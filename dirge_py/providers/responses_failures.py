"""What a failed Responses answer says of itself, in the words that the table of errors knows."""

from collections.abc import Mapping
from typing import Any

from dirge_py.providers.translator import as_text

_POLICY = frozenset(
    {
        *("bio_policy", "cyber_policy", "content_policy_violation"),
        *("misalignment_policy_violation", "image_content_policy_violation"),
    }
)


def is_policy(error: Mapping[str, Any]) -> bool:
    """Whether the service will not have the model answer this, however often it is asked."""
    return error.get("code") in _POLICY


def failure(error: Mapping[str, Any]) -> Mapping[str, Any]:
    """The body for a `ServiceError`; the codes alone do not tell whose fault it was."""
    told = {name: value for name, value in error.items() if value is not None}
    code = as_text(told.get("code"))
    if not told:
        told = {"type": "server_error", "message": "the answer failed, and no reason was given"}
    elif code.startswith("invalid_") or "image" in code or code == "data_residency_mismatch":
        told["type"] = "invalid_request_error"
    return {"error": told}
