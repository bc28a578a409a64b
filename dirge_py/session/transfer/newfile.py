"""A file that did not exist before."""

import contextlib
import os
import re
from pathlib import Path

from dirge_py.types.errors import FileError

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_MOST_TRIES = 1000


def write_new(path: Path, text: str, *, other_name: bool = False) -> Path:
    """Write `text` as a file that is not there yet; returns where it is.

    With `other_name` a number is put behind the name until it is free.

    Raises:
        FileError: there is one, or it cannot be written.
    """
    number = 1
    while True:
        numbered = path.with_stem(f"{path.stem}-{number}") if number > 1 else path
        try:
            _write(numbered, text.encode("utf-8", "replace"))
            return numbered
        except FileExistsError as error:
            if not other_name or number == _MOST_TRIES:
                raise FileError(
                    f"{str(path)!r} is there already.", hint="Name another file."
                ) from error
        except (OSError, ValueError) as error:  # a name with a zero byte is a ValueError
            why = getattr(error, "strerror", None) or error
            raise FileError(f"{str(path)!r} cannot be written: {why}.") from error
        number += 1


def file_name(title: str, session_id: str, ending: str) -> str:
    """A name for the session's file: words of its title and its id, plain in every file system."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:40].strip("-")
    return "-".join(filter(None, ("dirge", words, session_id))) + f".{ending}"


def _write(path: Path, content: bytes) -> None:
    fd = os.open(path, _FLAGS, 0o666)
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(content)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(path)
        raise
    finally:
        os.close(fd)
