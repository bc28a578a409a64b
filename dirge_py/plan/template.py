"""Texts with places in them, `{{NAME}}`, where values are put."""

import re
from collections.abc import Mapping

_PLACE = re.compile(r"\{\{([A-Z][A-Z0-9_]*)\}\}")


def fill(template: str, values: Mapping[str, str]) -> str:
    """`template` with each `{{NAME}}` replaced by its value, in one pass from left to right.

    What a value holds is never looked at again, so a request that speaks of `{{PLAN}}` stays as it
    was typed. Names that have no value, and places that are not closed, stay too.
    """
    return _PLACE.sub(lambda place: values.get(place[1], place[0]), template)
