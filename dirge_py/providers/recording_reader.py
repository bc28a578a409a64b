"""Reads a recording back: exchanges, in the order in which they began."""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, get_args

from dirge_py.providers.answers import Trouble
from dirge_py.providers.recording import VERSION
from dirge_py.types.errors import ConfigError

COMPLETE, CLOSED, TIMED_OUT, CUT = "complete", "closed", "timed out", "cut"
"""How an exchange ended, besides the troubles of a connection. Cut: the recording ends before."""
_ENDS = frozenset({COMPLETE, CLOSED, TIMED_OUT, *get_args(Trouble)})


@dataclass(slots=True, kw_only=True, eq=False)
class RecordedExchange:
    """One request and what came of it. `status` None: no head of an answer came.

    `service` names its `alias`, `type`, `wire` and `base_url`, and its `dialect`. `is_whole`: it
    was no stream.
    """

    method: str
    url: str
    service: Mapping[str, Any]
    is_whole: bool = False
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    pieces: list[bytes] = field(default_factory=list)
    end: str = CUT
    detail: str = "the recording ends before the answer does"


def read_recording(path: str) -> Sequence[RecordedExchange]:
    """Every exchange of the file.

    A last line that is no whole one is passed over: whoever wrote it was killed.

    Raises:
        ConfigError: it cannot be read, is no recording, or is one of a newer dirge.
    """
    try:
        with open(path, "rb") as file:
            content = file.read()
    except (OSError, ValueError) as error:  # a name with a zero byte is a ValueError
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"recording {path} cannot be read: {why}.") from error
    exchanges: dict[int, RecordedExchange] = {}
    for number, line in _lines(path, content):
        try:
            _take(exchanges, line)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            _refuse(path, number, f"it is no line of a recording ({error!r})")
    return list(exchanges.values())


def _lines(path: str, content: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each line behind the first with its number, from 1."""
    *lines, _torn = content.split(b"\n")
    has_begun = False
    for number, text in enumerate(lines, start=1):
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            _refuse(path, number, "it is no JSON")
        if has_begun and isinstance(line, dict):
            yield number, line
        elif has_begun or not isinstance(line, dict) or "dirge_recording" not in line:
            _refuse(path, number, "it is no line of a recording")
        elif line["dirge_recording"] != VERSION:
            _refuse(path, number, f"it has the version {line['dirge_recording']!r}, not {VERSION}")
        has_begun = True
    if not has_begun:
        _refuse(path, 1, "it is no recording")


def _take(exchanges: dict[int, RecordedExchange], line: Mapping[str, Any]) -> None:
    number = line["exchange"]
    if "method" in line:
        exchanges[number] = RecordedExchange(
            method=str(line["method"]),
            url=str(line["url"]),
            service=dict(line["service"]),
            is_whole=bool(line.get("whole")),
        )
        return
    exchange = exchanges[number]
    if "status" in line:
        exchange.status = int(line["status"])
        headers = dict(line["headers"])
        exchange.headers = {str(name).lower(): str(value) for name, value in headers.items()}
    elif "text" in line:
        exchange.pieces.append(line["text"].encode())
    elif "base64" in line:
        exchange.pieces.append(base64.b64decode(line["base64"], validate=True))
    elif line["end"] in _ENDS:
        exchange.end = line["end"]
        exchange.detail = str(line.get("detail", ""))
    else:
        raise ValueError(line["end"])


def _refuse(path: str, line: int, why: str) -> NoReturn:
    raise ConfigError(
        f"recording {path}, line {line}: {why}.",
        hint="`dirge --record FILE` writes recordings; a newer dirge may write others.",
    )
