"""`dirge config init` in a plain terminal."""

import signal
import termios
from pathlib import Path

import pytest

from dirge_py.cli.config import ConsolePrompter
from dirge_py.slash.base import Choice
from tests.support.fake_service import FakeService, ModelReply, RawReply
from tests.support.product import Product
from tests.support.terminal import Terminal

TAGS = RawReply(body='{"models": [{"name": "qwen3", "size": 1}, {"name": "gemma3", "size": 1}]}')
LISTED = RawReply(body='{"data": [{"id": "a-1"}, {"id": "b-1"}, {"id": "b-2"}]}')


def start_config_init(tmp_path: Path, service: FakeService | None = None, *words: str) -> Terminal:
    return Terminal(
        ("-m", "dirge_py", "config", "init", *words),
        cwd=tmp_path,
        owns_it=True,
        DIRGE_CONFIG_DIR=str(tmp_path / "config"),
        DIRGE_LOCAL_SERVERS=service.url("ollama") if service else "",
        OPENAI_API_KEY="",
    )


def answer(terminal: Terminal, question: str, typed: str) -> None:
    terminal.read_until(question)
    terminal.output = terminal.output.rpartition(question.encode())[2]
    terminal.press(f"{typed}\n")


def test_enter_selects_detected_provider_and_number_selects_model(tmp_path: Path) -> None:
    with FakeService([TAGS, TAGS, ModelReply(text="ok")]) as service:
        terminal = start_config_init(tmp_path, service)
        terminal.read_until("*  1  Ollama  answers at")
        answer(terminal, "filter by [1]: ", "")
        answer(terminal, "filter by [1]: ", "2")
        terminal.read_until("gemma3 answered.")
        terminal.read_until("Now run `dirge` in the folder of your project.")
        assert terminal.finish() == 0
        assert service.requests[-1].json["model"] == "gemma3"
    written = (tmp_path / "config" / "config.toml").read_text()
    assert 'type = "ollama"' in written and 'model = "gemma3"' in written


def test_typed_words_filter_choices_and_key_is_not_echoed(tmp_path: Path) -> None:
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "config.toml").write_text("# mine\n[ui]\n")
    with FakeService([LISTED, ModelReply(text="ok")]) as service:
        terminal = start_config_init(tmp_path)
        terminal.read_until("Adding a provider to")
        answer(terminal, "filter by [1]: ", "groq")
        answer(terminal, "other ways): ", "")
        answer(terminal, "filter by [2]: ", "another URL")
        answer(terminal, "Base URL [", service.openai_url)
        answer(terminal, "filter by [2]: ", "")
        answer(terminal, "(hidden): ", "sk-typed")
        answer(terminal, "filter by [1]: ", "b")
        answer(terminal, "filter by [2]: ", "3")
        terminal.read_until("b-2 answered.")
        assert termios.tcgetattr(terminal.master) == terminal.before
        assert terminal.finish() == 0
        assert b"sk-typed" not in terminal.output
        sent = [seen.headers["authorization"] for seen in service.requests]
    assert sent == ["Bearer sk-typed"] * 2
    written = (folder / "config.toml").read_text()
    assert written.startswith("# mine\n") and "[providers.groq]" in written
    assert (folder / "keys" / "groq").read_text() == "sk-typed\n"


def test_key_typed_as_choice_is_refused_and_erased_from_the_screen(tmp_path: Path) -> None:
    key = "sk-ant-api03-abcDEF1234567890"
    terminal = start_config_init(tmp_path)
    answer(terminal, "[1]: ", key)
    terminal.read_until("This looks like an API key")
    shown = terminal.output.decode().rpartition(key)[2]
    assert "\x1b[A\x1b[2K" in shown
    terminal.press("\x04")
    assert terminal.finish() == 1
    assert terminal.output.count(key.encode()) == 1


@pytest.mark.parametrize("mark", ["filter by [1]: ", "other ways): "])
def test_ctrl_c_exits_and_writes_nothing(tmp_path: Path, mark: str) -> None:
    terminal = start_config_init(tmp_path)
    if mark != "filter by [1]: ":
        answer(terminal, "filter by [1]: ", "groq")
    terminal.read_until(mark)
    assert terminal.interrupt() == 128 + signal.SIGINT
    assert b"Nothing was changed." in terminal.output
    assert not (tmp_path / "config").exists()


def test_ctrl_d_cancels_and_writes_nothing(tmp_path: Path) -> None:
    terminal = start_config_init(tmp_path)
    terminal.read_until("filter by [1]: ")
    terminal.press("\x04")
    terminal.read_until("Nothing was changed.")
    assert terminal.finish() == 1
    assert not (tmp_path / "config").exists()


def test_template_flag_writes_commented_settings(tmp_path: Path) -> None:
    terminal = start_config_init(tmp_path, None, "--template")
    assert terminal.finish() == 0
    assert "# [providers" in (tmp_path / "config" / "config.toml").read_text()


def test_invalid_settings_are_reported_before_questions(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text("[ui\n")
    terminal = start_config_init(tmp_path)
    assert terminal.finish() == 2
    assert b"config.toml:1" in terminal.output and b"filter by" not in terminal.output


def test_template_flag_is_refused_by_other_verbs(product: Product) -> None:
    result = product.run("config", "show", "--template")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--template is for" in result.stderr


async def test_words_that_match_nothing_show_all_choices_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = iter(["zzz", "99", "many 1", "50"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(typed))
    choices = [Choice(id=f"m{n}", label=f"many {n}") for n in range(60)]
    assert await ConsolePrompter().pick("Which?", choices, "m3") == "m49"
    text = capsys.readouterr().out
    assert text.count("and 30 more") == 3
    assert "Nothing matches 'zzz'." in text and "*  4  many 3\n" in text
