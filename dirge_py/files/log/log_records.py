"""What the program notes about itself with `logging`: into the log file, never onto the screen."""

import logging
from contextlib import suppress
from typing import Any

from dirge_py.files.log.log_file import LogFile

_LOGGERS = (logging.getLogger("dirge_py"), logging.getLogger("dirge.plugin"))


class Log(LogFile):
    """A log file that also takes what is noted with `logging`, from INFO on, until it is closed."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._handler = _Notes(self)
        self._levels = [logger.level for logger in _LOGGERS]
        for logger in _LOGGERS:
            logger.addHandler(self._handler)
            logger.setLevel(logging.INFO)

    def close(self) -> None:
        for logger, level in zip(_LOGGERS, self._levels, strict=True):
            if self._handler in logger.handlers:
                logger.removeHandler(self._handler)
                logger.setLevel(level)
        super().close()


class _Notes(logging.Handler):
    def __init__(self, log: LogFile) -> None:
        super().__init__(logging.INFO)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(Exception):
            self._log.record(
                "note", level=record.levelname, logger=record.name, text=self.format(record)
            )


def keep_off_the_screen() -> None:
    """Without a handler `logging` would write warnings, with their tracebacks, to stderr.

    Handlers that a program sets up for itself get all of it as before.
    """
    for logger in _LOGGERS:
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())
