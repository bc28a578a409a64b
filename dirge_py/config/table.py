"""What every table of the settings is: closed, frozen, strict."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[int, Field(gt=0)]
PositiveNumber = Annotated[float, Field(gt=0)]
Bound = Annotated[int, Field(ge=0, le=1000)]


class Table(BaseModel):
    """A table of the file. `strict`: `max_turns = "5"` is a mistake worth naming."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        defer_build=True,
        hide_input_in_errors=True,
        protected_namespaces=(),
    )
