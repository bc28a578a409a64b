"""Conversations opened from another folder than the one dirge was started in."""

from pathlib import Path

import pytest

from dirge_py.cli.openers import openers
from dirge_py.config.load import load
from dirge_py.config.schema import Config
from dirge_py.wiring.options import BuildOptions
from tests.conversation.room import CONFIG, Person


async def test_what_flags_name_is_meant_from_where_dirge_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, extra, other = (tmp_path / name for name in ("began", "extra", "other"))
    for folder in (began, extra, other):
        folder.mkdir()
    (began / "mine.toml").write_text(f"[session]\nsnapshots = false\n[providers.fake]\n{CONFIG}")
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
    monkeypatch.chdir(began)

    def settings() -> Config:
        environment = {"HOME": str(tmp_path), "DIRGE_STATE_DIR": str(tmp_path / "state")}
        return load(environment={**environment, "OPENAI_API_KEY": "k"}, path=Path("mine.toml"))

    opening = openers(settings, lambda: BuildOptions(add_dirs=("../extra",)))
    here = opening.project()
    monkeypatch.chdir(other)

    talk = opening.other(Person(), None)
    try:
        assert talk.cwd == other
        assert list(talk.folders) == [str(other), str(extra)]
        assert opening.project() is not here
        assert opening.project() is opening.project()
        assert Path.cwd() == other
    finally:
        await talk.close()
