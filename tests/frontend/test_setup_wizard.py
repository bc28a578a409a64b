"""Setting up a provider: each question, cancelling, and what is stored."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from dirge_py.config.load import load
from dirge_py.frontend.setup_wizard import (
    Ending,
    looks_like_key,
    set_up,
    tidy_key,
    tidy_url,
    usual_name,
)
from dirge_py.providers.setup import ProviderSetup
from dirge_py.slash.base import Choice, Tone
from tests.support.fake_service import FakeService, ModelReply, RawReply

LISTED = RawReply(body='{"data": [{"id": "a"}, {"id": "b"}]}')
REFUSED = RawReply(status=401, body='{"error": {"message": "no such key"}}')
LEAVE = None
KEY = "sk-ant-api03-abcDEF1234567890_abc-DEF"


class Answers:
    """A scripted user: `(question, answer)` in order; None cancels the question.

    A choice is answered by words of its line.
    """

    def __init__(self, *pairs: tuple[str, str | None]) -> None:
        self._pairs = list(pairs)
        self.shown: list[str] = []

    async def pick(self, title: str, choices: Sequence[Choice], current: str) -> str | None:
        if (answer := self._next(title)) is None:
            return None
        if not answer:
            return current
        fits = [c.id for c in choices if answer.lower() in f"{c.label} {c.detail}".lower()]
        assert len(fits) == 1, f"{title} {answer}: {fits}"
        return fits[0]

    async def ask_line(self, title: str, *, value: str = "", hidden: bool = False) -> str | None:
        answer = self._next(title)
        return value if answer == "" else answer

    def say(self, text: str, *, tone: Tone = "plain") -> None:
        self.shown.append(text)

    def _next(self, title: str) -> str | None:
        assert self._pairs, f"{title}: nobody expected this"
        question, answer = self._pairs.pop(0)
        assert question in title
        return answer

    async def set_up(self, file: Path) -> Ending:
        ending = await set_up(self, self.say, ProviderSetup(file), "why", has_demo=True)
        assert not self._pairs, f"not asked: {self._pairs}"
        return ending


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DIRGE_LOCAL_SERVERS", "")
    return tmp_path / "config.toml"


OWN = ("Choose a provider", "your company")
DONE = ("Choose a provider", LEAVE)


async def test_custom_server_is_stored_under_chosen_name(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORP_KEY", "sk-corp")
    file.write_text('[providers.work]\ntype = "anthropic"\nheaders = { x-key = "old" }\n')
    with FakeService([LISTED, ModelReply(text="ok")]) as service:
        url = service.openai_url
        user = Answers(
            OWN,
            ("Base URL", f" {url.removeprefix('http://')}/chat/completions "),
            ("Where is the key", "another variable"),
            ("Variable", "$CORP_KEY"),
            ("Choose a model", "b"),
            ("Name for this provider, as in NAME/b", "not a name"),
            ("Name for this provider", "work"),
        )
        assert await user.set_up(file) == "stored"
        assert [seen.headers["authorization"] for seen in service.requests] == [
            "Bearer sk-corp"
        ] * 2
    entry = load(environment={}, path=file).providers["work"]
    assert (entry.type, entry.base_url, entry.model) == ("openai", url, "b")
    assert (entry.api_key_env, entry.headers) == ("CORP_KEY", {})
    assert "This replaces the provider work in the settings." in user.shown


async def test_refused_key_is_asked_again(file: Path) -> None:
    with FakeService([REFUSED, LISTED, ModelReply(text="ok")]) as service:
        user = Answers(
            ("Choose a provider", "Mistral"),
            ("API key for Mistral", ""),
            ("Where is the key", "another URL"),
            ("Base URL", service.openai_url),
            ("Where is the key", "type it"),
            ("API key (hidden)", "sk-wrong"),
            ("The key was refused", ""),
            ("API key for Mistral", "sk-right"),
            ("Choose a model", ""),
        )
        assert await user.set_up(file) == "stored"
    assert (file.parent / "keys" / "mistral").read_text() == "sk-right\n"


async def test_unreachable_server_and_web_page_lead_to_another_address(
    file: Path,
) -> None:
    page = RawReply(body="<!doctype html><p>Log in", headers={"content-type": "text/html"})
    with FakeService([page, RawReply(status=404), LISTED, ModelReply(text="ok")]) as service:
        user = Answers(
            OWN,
            ("Base URL", "https://nobody.invalid/v1"),
            ("Where is the key", "type it"),
            ("API key (hidden)", "sk"),
            ("No response from", "another URL"),
            ("Base URL", f"http://127.0.0.1:{service.port}"),
            ("Where is the key", "no key needed"),
            ("a model API", "another URL"),
            ("Base URL", f"http://127.0.0.1:{service.port}"),
            ("Where is the key", "no key needed"),
            ("a model API", "another URL"),
            ("Base URL", ""),
            ("Where is the key", "no key needed"),
            ("Choose a model", ""),
            ("Name for this provider", ""),
        )
        assert await user.set_up(file) == "stored"
        asked = [(seen.path, seen.headers.get("authorization")) for seen in service.requests]
    assert "has no list of models at" in "".join(user.shown)
    assert asked[:3] == [("/models", None), ("/models", None), ("/v1/models", None)]
    assert f'base_url = "{service.openai_url}"' in file.read_text()


async def test_setup_can_continue_with_key_that_may_not_list_models(file: Path) -> None:
    with FakeService([REFUSED, ModelReply(text="ok")]) as service:
        user = Answers(
            ("Choose a provider", "Mistral"),
            ("API key for Mistral", ""),
            ("Where is the key", "another URL"),
            ("Base URL", service.openai_url),
            ("Where is the key", "type it"),
            ("API key (hidden)", "sk"),
            ("The key was refused", "continue"),
            ("Model id", ""),
        )
        assert await user.set_up(file) == "stored"
    assert "the key that you typed" in "".join(user.shown)


async def test_known_service_asks_only_for_its_key(file: Path) -> None:
    user = Answers(
        ("Choose a provider", "Mistral"),
        ("API key for Mistral", "https://console.mistral.ai/keys"),
        ("API key for Mistral", "$MISTRAL_API_KEY"),
        ("API key for Mistral", "two words of some length"),
        ("API key for Mistral", "short"),
        ("API key for Mistral", LEAVE),
        DONE,
    )
    assert await user.set_up(file) == "given up"
    assert user.shown[1:] == [
        "This is a URL, not a key.",
        "Enter the key itself, not the name of a variable.",
        "A key has only ASCII characters, and no spaces.",
        "This is too short for a key: 5 characters.",
    ]


async def test_set_variable_is_offered_before_typing_a_key(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MISTRAL_API_KEY", "k" * 20)
    user = Answers(("Choose a provider", "Mistral"), ("Where is the key", LEAVE), DONE)
    assert await user.set_up(file) == "given up"


@pytest.mark.parametrize(
    "typed",
    [
        "sk-ant-api03-abcDEF123456",
        "https://api.anthropic.comsk-ant-api03-abcDEF1234567890",
        "https://api.openai.com/v1sk-proj-abcDEF1234567890",
        "https://gsk_abcDEF1234567890abcDEF1234567890",
        "https://api.mistral.aiA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6",
    ],
)
async def test_key_in_address_is_refused_and_not_shown(file: Path, typed: str) -> None:
    user = Answers(OWN, ("Base URL", typed), ("Base URL", LEAVE), DONE)
    assert await user.set_up(file) == "given up"
    assert user.shown[-1] == "This contains an API key. Enter only the URL here."
    assert list(file.parent.iterdir()) == []


@pytest.mark.parametrize(
    "typed",
    [
        f" {KEY}\n",
        f'"{KEY}"',
        f"'{KEY}',",
        f"export OPENAI_API_KEY={KEY}",
        f'ANTHROPIC_API_KEY = "{KEY}";',
        f"Bearer {KEY}",
    ],
)
def test_pasted_key_loses_variable_quotes_and_blanks(typed: str) -> None:
    assert tidy_key(typed) == KEY
    assert looks_like_key(typed)


@pytest.mark.parametrize(
    "typed",
    ["claude-sonnet-5", "ft:gpt-4o:corp::AbCd1234AbCd", "CORP_API_KEY", "work", "sk-short", "own"],
)
def test_models_variables_and_names_do_not_look_like_keys(typed: str) -> None:
    assert not looks_like_key(typed)


@pytest.mark.parametrize("key", [KEY, "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6"])
async def test_key_as_variable_model_or_name_is_refused_and_not_shown_or_stored(
    file: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("CORP_KEY", "sk-corp")
    with FakeService([RawReply(status=404), ModelReply(text="ok")]) as service:
        user = Answers(
            OWN,
            ("Base URL", service.openai_url),
            ("Where is the key", "another variable"),
            ("Variable", key),
            ("Variable", "no variable"),
            ("Variable", "CORP_KEY"),
            ("Model id", f"export X={key}"),
            ("Model id", "m"),
            ("NAME/m", key),
            ("NAME/m", "corp"),
        )
        assert await user.set_up(file) == "stored"
        assert not any(key.encode() in seen.body for seen in service.requests)
    assert user.shown.count("This looks like an API key, which is not asked for here.") == 3
    assert "Enter the name of a variable, such as CORP_API_KEY." in user.shown
    assert key not in "".join(user.shown) + file.read_text()


async def test_key_of_another_service_is_refused_before_any_request(file: Path) -> None:
    user = Answers(
        ("Choose a provider", "Mistral"),
        ("API key", KEY),
        ("API key", LEAVE),
        DONE,
    )
    assert await user.set_up(file) == "given up"
    assert user.shown[1:] == ["This is a key of Anthropic, not of Mistral. It was not sent."]


async def test_key_of_another_service_is_taken_for_an_address_of_the_environment(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeService([LISTED, ModelReply(text="ok")]) as service:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", service.anthropic_url)
        user = Answers(
            ("Choose a provider", "Anthropic"),
            ("API key", KEY.replace("ant", "or")),
            ("Choose a model", ""),
        )
        assert await user.set_up(file) == "stored"


async def test_unwritable_folder_is_reported_before_the_questions_and_when_storing(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORP_KEY", "sk-corp")
    file.write_text("")
    inside = file / "config.toml"
    with FakeService([LISTED, ModelReply(text="ok")]) as service:
        user = Answers(
            OWN,
            ("Base URL", service.openai_url),
            ("Where is the key", "another variable"),
            ("Variable", "CORP_KEY"),
            ("Choose a model", ""),
            ("NAME/a", ""),
            DONE,
        )
        assert await user.set_up(inside) == "given up"
    assert f"the folder {file} is not writable" in user.shown[1]
    assert user.shown[-1].startswith(f"{inside}: Not a directory.")


async def test_best_known_services_come_first_and_own_server_last(file: Path) -> None:
    offers = await ProviderSetup(file).offers()
    assert [offer.label for offer in offers[:3]] == ["Anthropic", "OpenAI", "Google Gemini"]
    assert offers[-1].is_own


async def test_failed_setup_is_repeated_with_entered_values(file: Path) -> None:
    down = RawReply(status=503, body="down")
    with FakeService([LISTED, down, LISTED, ModelReply(text="ok")]) as service:
        user = Answers(
            OWN,
            ("Base URL", service.openai_url),
            ("Where is the key", "no key needed"),
            ("Choose a model", "b"),
            ("test request failed", "start over"),
            ("Base URL", ""),
            ("Where is the key", "no key needed"),
            ("Choose a model", ""),
            ("Name for this provider", "here"),
        )
        assert await user.set_up(file) == "stored"
        assert not any("authorization" in seen.headers for seen in service.requests)
    assert file.read_text() == (
        'provider = "here"\n\n[providers.here]\ntype = "openai"\n'
        f'base_url = "{service.openai_url}"\nmodel = "b"\n'
    )


@pytest.mark.parametrize(
    "questions",
    [
        [],
        [OWN, ("Base URL", LEAVE)],
        [OWN, ("Base URL", ""), ("Base URL", LEAVE)],
        [OWN, ("Base URL", "ftp://x"), ("Base URL", LEAVE)],
        [OWN, ("Base URL", "https://x.example/v1"), ("Where is the key", LEAVE)],
        [
            OWN,
            ("Base URL", "https://x.example"),
            ("Where is", "type it"),
            ("API key (hidden)", LEAVE),
        ],
        [OWN, ("Base URL", "https://x.example"), ("Where is", "another"), ("Variable", " ")],
        [("Choose a provider", "does not answer at http://127.0.0.1:1234"), ("Base URL", LEAVE)],
        [OWN, ("Base URL", "http://x.example/v1"), ("x.example can read", LEAVE)],
        [
            OWN,
            ("Base URL", "http://x.example/v1"),
            ("x.example can read", "another URL"),
            ("Base URL", LEAVE),
        ],
    ],
)
async def test_cancelled_question_returns_to_list_and_cancelled_list_changes_nothing(
    file: Path, questions: list[tuple[str, str | None]]
) -> None:
    assert await Answers(*questions, DONE).set_up(file) == "given up"
    assert list(file.parent.iterdir()) == []


async def test_cancel_after_failed_test_request_returns_to_list(file: Path) -> None:
    with FakeService([LISTED, REFUSED]) as service:
        user = Answers(
            ("Choose a provider", "does not answer at http://127.0.0.1:1234"),
            ("Base URL", service.openai_url),
            ("Choose a model", ""),
            ("test request failed", LEAVE),
            ("Choose a provider", "Try it"),
        )
        assert await user.set_up(file) == "demo"
    assert not file.exists()


async def test_http_server_is_stored_after_explicit_confirmation(
    file: Path,
) -> None:
    user = Answers(
        ("Choose a provider", "Ollama"),
        ("Base URL", "http://ollama.invalid:11434"),
        ("between here and ollama.invalid can read", "anyway"),
        ("No response from", "continue"),
        ("Model id", "qwen3"),
        ("test request failed", "keep"),
    )
    assert await user.set_up(file) == "stored"
    entry = load(environment={}, path=file).providers["ollama"]
    assert (entry.base_url, entry.allow_insecure) == ("http://ollama.invalid:11434", True)


@pytest.mark.parametrize(
    ("typed", "url", "name"),
    [
        ("https://llm.corp.example/v1/", "https://llm.corp.example/v1", "corp"),
        (" api.groq.com/openai/v1/models", "https://api.groq.com/openai/v1", "groq"),
        ("localhost:8000/v1/chat/completions", "http://localhost:8000/v1", "local"),
        ("http://[::1]:80/v1", "http://[::1]:80/v1", "local"),
        ("https://10.0.0.7:8000/v1", "https://10.0.0.7:8000/v1", "server"),
        ("gpu-box", "https://gpu-box", "gpu-box"),
        ("", "", "server"),
    ],
)
def test_pasted_address_becomes_base_url_and_name(typed: str, url: str, name: str) -> None:
    assert tidy_url(typed) == url
    assert usual_name(url) == name
