"""Answers after a schema, for an embedder: a JSON Schema, or a pydantic model."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from pydantic import BaseModel, ValidationError

from dirge_py.agent_loop.answer_schema import AnswerSchema
from dirge_py.sdk.structured import checked_schema
from dirge_py.types.errors import ConfigError, UsageError
from dirge_py.types.outcomes import Done, Outcome

OutputSchema: TypeAlias = type[BaseModel] | Mapping[str, Any]


class Output:
    """What the answers of a run have to be, and what the embedder gets of them.

    Raises:
        ConfigError: it is no schema that answers could be checked by.
    """

    def __init__(self, wanted: OutputSchema) -> None:
        self._model: type[BaseModel] | None = None
        if isinstance(wanted, Mapping):
            schema = dict(wanted)
        else:
            self._model = wanted
            schema = wanted.model_json_schema()
        try:
            # A copy, which nobody changes, of what JSON has a form for.
            checked = checked_schema(json.loads(json.dumps(schema)))
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigError(f"The output schema is no JSON: {error}.") from error
        except UsageError as error:
            raise ConfigError(error.message, hint=error.hint) from error
        self._by_schema = checked.check
        self.schema: AnswerSchema = replace(checked, check=self._problems)

    def delivered(self, outcome: Outcome) -> Outcome:
        """The outcome, its value an instance of the model if there is one."""
        if self._model is None or not isinstance(outcome, Done) or outcome.result is None:
            return outcome
        value = _instance(self._model, outcome.result.structured)
        return replace(outcome, result=replace(outcome.result, structured=value))

    def _problems(self, value: Any) -> Sequence[str]:
        problems = self._by_schema(value)
        if problems or self._model is None:
            return problems
        try:
            _instance(self._model, value)
        except ValidationError as error:
            # What its own validators ask for stands in no schema.
            return [_line(each) for each in error.errors(include_url=False, include_context=False)]
        return ()


def _instance(model: type[BaseModel], value: Any) -> BaseModel:
    # As JSON: there a date is text, and a tuple is an array.
    return model.model_validate_json(json.dumps(value))


def _line(error: Any) -> str:
    place = ".".join(str(step) for step in error["loc"])
    return f"{place}: {error['msg']}" if place else str(error["msg"])
