"""Conversations that are opened in another folder than the one dirge started in."""

from pathlib import Path

import pytest

from dirge_py.cli.interactive import SessionOpeners
from dirge_py.config.load import load
from dirge_py.config.schema import Config
from dirge_py.sdk.options import BuildOptions
from tests.support.fake_service import FakeService, RawReply
from tests.support.project import CONFIG, ScriptedUser


async def test_paths_of_flags_are_relative_to_start_folder(
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

    opening = SessionOpeners(settings, lambda: BuildOptions(add_dirs=("../extra",)))
    here = opening.project()
    monkeypatch.chdir(other)

    conversation = opening.other(ScriptedUser(), None)
    try:
        assert conversation.cwd == other
        assert list(conversation.settings.folders) == [str(other), str(extra)]
        assert opening.project() is not here
        assert opening.project() is opening.project()
        assert Path.cwd() == other
    finally:
        await conversation.close()


async def test_local_server_is_probed_once_for_all_conversations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tags = RawReply(body='{"models": [{"name": "qwen3", "size": 1}]}')
    monkeypatch.chdir(tmp_path)
    with FakeService([tags, tags]) as service:
        environment = {
            "HOME": str(tmp_path),
            "DIRGE_STATE_DIR": str(tmp_path / "state"),
            "DIRGE_LOCAL_SERVERS": service.url("ollama"),
        }
        opening = SessionOpeners(lambda: load(environment=environment), BuildOptions)
        opening.settings_at_start()
        talks = [opening.first(ScriptedUser()), opening.other(ScriptedUser(), None)]
        for conversation in talks:
            assert conversation.settings.model == "ollama/qwen3"
            assert "from Ollama at" in "\n".join(conversation.notices)
            await conversation.close()
        assert sorted(seen.path for seen in service.requests) == ["/api/ps", "/api/tags"]
        environment["MISTRAL_API_KEY"] = "k"
        conversation = opening.other(ScriptedUser(), None)
        assert conversation.settings.model.startswith("mistral/")
        await conversation.close()
        assert len(service.requests) == 2
