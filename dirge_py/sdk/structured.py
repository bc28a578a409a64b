"""Schemas of structured answers: from `--json-schema`, or from a program."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from dirge_py.agent_loop.answer_schema import AnswerSchema, answer_schema
from dirge_py.agent_loop.tool_calls import refuse_constant
from dirge_py.tools.toolbox import schema_fault, value_problems
from dirge_py.types.errors import ConfigError, UsageError
from dirge_py.types.outcomes import Done, Outcome

if TYPE_CHECKING:
    from pydantic import BaseModel

_MOST_BYTES = 1_000_000
_HINT = 'As in --json-schema \'{"type":"object","properties":{"bugs":{"type":"integer"}}}\'.'


def schema_of(given: str) -> AnswerSchema:
    """The schema of `--json-schema`: JSON, or `@` and the file that holds it.

    Raises UsageError: it can't be read, is not JSON, or not a usable schema.
    """
    is_file = given.startswith("@")
    text = _content(Path(given[1:])) if is_file else given
    named = f"--json-schema {given[1:]}" if is_file else "--json-schema"
    try:
        schema = json.loads(text, parse_constant=refuse_constant)
    except RecursionError:
        raise UsageError(f"{named} is nested too deeply.") from None
    except ValueError as error:
        hint = "" if is_file else "To name a file, put @ before it."
        raise UsageError(f"{named} is not JSON: {error}.", hint=hint) from None
    if not isinstance(schema, dict):
        raise UsageError(f"{named} must be a JSON object.", hint=_HINT)
    return checked_schema(schema)


def checked_schema(schema: Mapping[str, Any]) -> AnswerSchema:
    """The schema (of JSON values only), ready to check answers. Raises UsageError."""
    fault = schema_fault(schema)
    if fault:
        raise UsageError(f"the schema of the answer cannot be used: {fault}.")
    return answer_schema(schema, partial(value_problems, schema))


def _content(path: Path) -> str:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UsageError(f"--json-schema {path}: more than {_MOST_BYTES:,} bytes.")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--json-schema {path}: {error.strerror}.") from None
    except ValueError:
        raise UsageError(f"--json-schema {path}: not UTF-8 text.") from None


OutputSchema: TypeAlias = type["BaseModel"] | Mapping[str, Any]


class Output:
    """The schema of a run's answers, and the values that the program gets.

    Raises ConfigError: it is not a usable schema.
    """

    def __init__(self, wanted: OutputSchema) -> None:
        self._model: type[BaseModel] | None = None
        if isinstance(wanted, Mapping):
            schema = dict(wanted)
        else:
            self._model = wanted
            schema = wanted.model_json_schema()
        try:
            # A copy of JSON values, so that later changes of the original have no effect.
            checked = checked_schema(json.loads(json.dumps(schema)))
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigError(f"The output schema is not JSON: {error}.") from error
        except UsageError as error:
            raise ConfigError(error.message, hint=error.hint) from error
        self._by_schema = checked.check
        self.schema: AnswerSchema = replace(checked, check=self._problems)

    def delivered(self, outcome: Outcome) -> Outcome:
        """Return the outcome, its value an instance of the pydantic class if there is one."""
        if self._model is None or not isinstance(outcome, Done) or outcome.result is None:
            return outcome
        value = _instance(self._model, outcome.result.structured)
        return replace(outcome, result=replace(outcome.result, structured=value))

    def _problems(self, value: Any) -> Sequence[str]:
        problems = self._by_schema(value)
        if problems or self._model is None:
            return problems
        from pydantic import ValidationError

        try:
            _instance(self._model, value)
        except ValidationError as error:
            # The model's own validators are not part of its schema.
            return [_line(each) for each in error.errors(include_url=False, include_context=False)]
        return ()


def _instance(model: "type[BaseModel]", value: Any) -> "BaseModel":
    # As JSON: there a date is text, and a tuple is an array.
    return model.model_validate_json(json.dumps(value))


def _line(error: Any) -> str:
    place = ".".join(str(step) for step in error["loc"])
    return f"{place}: {error['msg']}" if place else str(error["msg"])
