"""Recordings of what models were asked and answered: the file, the client that writes it.

`replay.py` plays a recording back.
"""

from collections.abc import Callable
from contextlib import ExitStack

from dirge_py.providers.client import HttpClient
from dirge_py.providers.recording.client import RecordingClient
from dirge_py.providers.recording.file import HttpRecording
from dirge_py.providers.settings import Redact


def recording_client(
    client: HttpClient, recording: HttpRecording | None, redact: Redact
) -> HttpClient:
    """`client`, recorded if there is a recording to do."""
    return client if recording is None else RecordingClient(client, recording, redact)


def begin_recording(
    recording: HttpRecording | None, notify: Callable[[str], None], undo: ExitStack
) -> tuple[str, ...]:
    """Make the file, which `undo` removes while it is empty; returns what a person must know.

    Raises:
        ConfigError: the file is there already, or cannot be made.
    """
    if recording is None:
        return ()
    notice = recording.open(notify)
    undo.callback(recording.forget)
    return (notice,) if notice else ()
