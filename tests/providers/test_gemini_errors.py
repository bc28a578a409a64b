"""Google's errors: status, name and details."""

import json

import pytest

from dirge_py.providers.errors import classify_text
from tests.support.fake_service import RawReply

ADVICE = (
    "You exceeded your current quota, please check your plan and billing details. For more "
    "information on this error, head to: https://ai.google.dev/gemini-api/docs/rate-limits."
)
PER_MINUTE = "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"
PER_DAY = "GenerateRequestsPerDayPerProjectPerModel-FreeTier"


def refusal(code, status, message, *details, in_list=False):
    body = {"error": {"code": code, "message": message, "status": status, "details": details}}
    return RawReply(
        status=code,
        body=json.dumps([body] if in_list else body, indent=2),
        headers={"content-type": "application/json; charset=UTF-8"},
    )


def quota(*ids):
    violations = [{"quotaMetric": "generativelanguage/requests", "quotaId": i} for i in ids]
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": violations}


def retry(delay):
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}


def info(reason):
    return {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}


@pytest.mark.parametrize(
    ("reply", "kind", "wait_s"),
    [
        (
            refusal(429, "RESOURCE_EXHAUSTED", ADVICE, quota(PER_MINUTE), retry("17s")),
            "rate_limit",
            17.0,
        ),
        (
            refusal(429, "RESOURCE_EXHAUSTED", ADVICE, retry("2.5s"), in_list=True),
            "rate_limit",
            2.5,
        ),
        (
            refusal(429, "RESOURCE_EXHAUSTED", ADVICE, quota(PER_MINUTE, PER_DAY), retry("41.9s")),
            "usage_cap",
            41.9,
        ),
        (
            refusal(
                429,
                "RESOURCE_EXHAUSTED",
                f"{ADVICE}\n* Quota exceeded for metric: free_tier, limit: 0, model: gemini-3-pro",
                quota(PER_MINUTE),
            ),
            "usage_cap",
            None,
        ),
        (refusal(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted."), "rate_limit", None),
        (
            refusal(503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
            "rate_limit",
            None,
        ),
        (refusal(500, "INTERNAL", "An internal error has occurred."), "server", None),
        (
            refusal(
                400,
                "INVALID_ARGUMENT",
                "API key not valid. Please pass a valid API key.",
                info("API_KEY_INVALID"),
            ),
            "auth",
            None,
        ),
        (
            refusal(400, "INVALID_ARGUMENT", "API Key expired.", info("API_KEY_INVALID")),
            "auth",
            None,
        ),
        (refusal(403, "PERMISSION_DENIED", "Method doesn't allow callers."), "auth", None),
        (
            refusal(400, "INVALID_ARGUMENT", "Function call is missing a thought_signature."),
            "invalid_request",
            None,
        ),
        (
            refusal(
                400,
                "INVALID_ARGUMENT",
                "The input token count (1200293) exceeds the maximum number of tokens allowed "
                "(1048576).",
            ),
            "context_length",
            None,
        ),
    ],
)
async def test_error_status_and_details_map_to_kind(gemini, reply, kind, wait_s):
    error = await gemini(reply).error()

    assert (error.kind, error.retry_after_s) == (kind, wait_s)


async def test_rate_limit_error_does_not_mention_credit(gemini):
    error = await gemini(
        refusal(429, "RESOURCE_EXHAUSTED", ADVICE, quota(PER_MINUTE), retry("17s"))
    ).error()

    assert "credit" not in error.message
    assert "17 s" in error.hint


async def test_auth_error_names_key_variable(gemini):
    error = await gemini(
        refusal(400, "INVALID_ARGUMENT", "API key not valid.", info("API_KEY_INVALID"))
    ).error()

    assert "GEMINI_API_KEY" in error.hint


async def test_error_mid_stream_maps_to_kind(gemini):
    start = {"candidates": [{"content": {"parts": [{"text": "half"}]}}]}
    limit = {"code": 429, "message": ADVICE, "status": "RESOURCE_EXHAUSTED"}
    error = {"error": {**limit, "details": [quota(PER_MINUTE), retry("3s")]}}
    stream = "".join(f"data: {json.dumps(each)}\n\n" for each in (start, error))
    raised = await gemini(RawReply(body=stream)).error()

    assert (raised.kind, raised.retry_after_s, raised.phase) == ("rate_limit", 3.0, "stream")


def test_plan_and_billing_advice_of_other_services_is_auth_error():
    assert classify_text(ADVICE) == "auth"
