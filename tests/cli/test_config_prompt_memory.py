"""`dirge config prompt` includes memory."""

import os
from pathlib import Path

import pytest

from dirge_py.cli.config import config_command


def test_prompt_shows_memory_with_its_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = Path(os.environ["DIRGE_CONFIG_DIR"])
    config.mkdir(parents=True)
    (config / "USER.md").write_text("- likes tabs\n")
    monkeypatch.chdir(tmp_path)

    assert config_command(["prompt"]) == 0

    shown = capsys.readouterr().out
    assert "- likes tabs" in shown
    assert any(line.split()[1:] == ["memory"] for line in shown.splitlines())
