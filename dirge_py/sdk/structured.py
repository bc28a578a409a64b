"""Answers after a schema that somebody brings: checked, and made ready for a conversation."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from dirge_py.agent_loop.answer_schema import AnswerSchema, answer_schema, refuse_constant
from dirge_py.tools.json_schema import schema_fault, value_problems
from dirge_py.types.errors import UsageError

_MOST_BYTES = 1_000_000
_HINT = 'As in --json-schema \'{"type":"object","properties":{"bugs":{"type":"integer"}}}\'.'


def schema_of(given: str) -> AnswerSchema:
    """The schema of `--json-schema`: JSON, or `@` and the file that holds it.

    Raises:
        UsageError: it cannot be read, is no JSON, or no schema that something could be checked by.
    """
    is_file = given.startswith("@")
    text = _content(Path(given[1:])) if is_file else given
    named = f"--json-schema {given[1:]}" if is_file else "--json-schema"
    try:
        schema = json.loads(text, parse_constant=refuse_constant)
    except RecursionError:
        raise UsageError(f"{named} is nested too deeply.") from None
    except ValueError as error:
        hint = "" if is_file else "A file is named with @ before it."
        raise UsageError(f"{named} is no JSON: {error}.", hint=hint) from None
    if not isinstance(schema, dict):
        raise UsageError(f"{named} must be a JSON object.", hint=_HINT)
    return checked_schema(schema)


def checked_schema(schema: Mapping[str, Any]) -> AnswerSchema:
    """The schema, of JSON values only, ready to check answers. Raises UsageError."""
    fault = schema_fault(schema)
    if fault:
        raise UsageError(f"the schema of the answer is not usable: {fault}.")
    return answer_schema(schema, partial(value_problems, schema))


def _content(path: Path) -> str:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UsageError(f"--json-schema {path}: more than {_MOST_BYTES:,} bytes.")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--json-schema {path}: {error.strerror}.") from None
    except ValueError:
        raise UsageError(f"--json-schema {path}: it is not UTF-8 text.") from None
