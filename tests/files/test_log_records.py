"""Records of `logging` go to the log file, never to the screen."""

import json
import logging
import subprocess
import sys
from pathlib import Path

from dirge_py.files.log_file import Log


def test_log_records_and_tracebacks_are_redacted_until_the_log_is_closed(tmp_path: Path):
    path = tmp_path / "dirge.jsonl"
    logger = logging.getLogger("dirge_py.some.part")
    log = Log(path, lambda text: text.replace("hunter2", "***"), note=lambda text: None)
    try:
        raise LookupError("hunter2")
    except LookupError:
        logger.exception("it broke")
    log.close()
    logger.warning("later")

    [line] = [json.loads(line) for line in path.read_text().splitlines()]
    assert (line["kind"], line["level"], line["logger"]) == ("note", "ERROR", "dirge_py.some.part")
    assert "it broke" in line["text"] and "LookupError: ***" in line["text"]


def test_rotated_log_still_takes_records(tmp_path: Path):
    path = tmp_path / "dirge.jsonl"
    log = Log(path, str, note=lambda text: None, max_bytes=300)
    for number in range(9):
        logging.getLogger("dirge_py").info("note %d", number)
    log.close()
    assert "note 8" in path.read_text()


def test_without_a_log_nothing_is_written_to_stderr():
    code = (
        "import logging\n"
        "from dirge_py.files.log_file import keep_off_the_screen\n"
        "keep_off_the_screen()\n"
        "logging.getLogger('dirge_py.x').error('seen')\n"
        "logging.getLogger('dirge.plugin.x').error('seen')\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stderr == ""
