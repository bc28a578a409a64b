"""What is sent: system prompt, instruction files, attachments, commands."""

import base64
import itertools
import json

import pytest

from tests.support.fake_service import ModelReply
from tests.support.product import Product, Wire

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


def system(product: Product, number: int = -1) -> str:
    message = product.sent(number)[0]
    assert message["role"] == "system"
    return str(message["content"])


def blocks(product: Product) -> str:
    """The last message as text, whether a string or blocks."""
    content = product.sent()[-1]["content"]
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def prompt_blocks(product: Product, *words: str) -> str:
    product.will(ModelReply(text="ok"))
    assert product.ask(*words).exit_code == 0
    return blocks(product)


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_each_request_starts_with_previous_request(product: Product, wire: Wire) -> None:
    product.configure(wire=wire)
    product.file("AGENTS.md", "Use tabs.\n")
    product.file("a.txt", "one\n")
    look = ModelReply(calls=[("read", {"path": "a.txt"})], thinking="hm")
    product.will(look, look, ModelReply(text="done"), ModelReply(text="again"))
    product.ask("x")
    product.ask("-c", "y")

    bodies = [request.json for request in product.service.requests]
    for earlier, later in itertools.pairwise(bodies):
        assert later.get("system") == earlier.get("system")
        assert later["tools"] == earlier["tools"]
        kept = [_bare(message) for message in earlier["messages"]]
        assert [_bare(message) for message in later["messages"]][: len(kept)] == kept


def _bare(message: dict[str, object]) -> str:
    """A message without cache marks, which move with each request."""
    return json.dumps(message).replace(', "cache_control": {"type": "ephemeral"}', "")


def test_agents_md_is_sent(product: Product) -> None:
    product.file("AGENTS.md", "Use tabs, always.\n")
    prompt_blocks(product, "x")

    assert "Use tabs, always." in system(product)


def test_no_context_files_flag_omits_agents_md(product: Product) -> None:
    product.file("AGENTS.md", "Use tabs, always.\n")
    prompt_blocks(product, "--no-context-files", "x")

    assert "Use tabs" not in system(product)


def test_system_prompt_can_be_replaced_or_extended(product: Product) -> None:
    prompt_blocks(product, "x")
    usual = system(product)
    prompt_blocks(product, "--system-prompt", "Speak like a pirate.", "x")
    replaced = system(product)
    product.file("more.txt", "Be brief.")
    prompt_blocks(product, "--append-system-prompt-file", "more.txt", "x")
    added = system(product)

    assert "pirate" in replaced and usual[:60] not in replaced
    assert usual[:60] in added and "Be brief." in added


def test_mentioned_file_is_attached_as_text(product: Product) -> None:
    product.file("src/a.py", "import this\n")

    text = prompt_blocks(product, "explain @src/a.py please")

    assert "explain @src/a.py please" in text
    assert "import this" in text


def test_mentioned_folder_is_attached_as_listing(product: Product) -> None:
    product.file("src/a.py", "import this\n")

    text = prompt_blocks(product, "what is in @src")

    assert "a.py" in text
    assert "import this" not in text


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_mentioned_image_is_attached_as_image(product: Product, wire: Wire) -> None:
    product.configure(wire=wire, model={"openai": "gpt-4o", "anthropic": "claude-haiku-4-5"}[wire])
    product.file("dot.png", PNG)

    text = prompt_blocks(product, "look at @dot.png")

    assert base64.b64encode(PNG).decode() in text
    assert "image/png" in text


def test_image_is_sent_again_when_session_continues(product: Product) -> None:
    product.file("dot.png", PNG)
    prompt_blocks(product, "look at @dot.png")
    (product.project / "dot.png").unlink()

    prompt_blocks(product, "-c", "and now?")

    assert base64.b64encode(PNG).decode() in product.sent_text()


def test_image_can_be_attached_without_session(product: Product) -> None:
    product.file("dot.png", PNG)

    assert base64.b64encode(PNG).decode() in prompt_blocks(
        product, "--no-session", "look at @dot.png"
    )


def test_mention_of_missing_file_stays_text(product: Product) -> None:
    assert prompt_blocks(product, "mail me@example.org about @nothing") == (
        "mail me@example.org about @nothing"
    )


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("big.txt", b"x" * 300_000, "256 KiB"),
        ("huge.bin", b"\0" * 50_000_000, "huge.bin"),
        ("binary.dat", b"\0\1\2", "neither text nor"),
    ],
)
def test_file_that_cannot_be_attached_fails_before_request(
    product: Product, name: str, content: bytes, words: str
) -> None:
    product.file(name, content)

    result = product.ask(f"look at @{name}")

    assert result.exit_code == 2
    assert words in result.stderr
    assert product.service.requests == []
    assert product.journals == []


def test_headless_command_runs_without_model(product: Product) -> None:
    result = product.run("-p", "/why bash git push")

    assert result.exit_code == 0
    assert "git push" in result.stdout and "ask" in result.stdout
    assert product.service.requests == []
    assert product.journals == []


def test_command_output_is_available_as_json(product: Product) -> None:
    result = product.ask("/model")

    assert result.json["exit_code"] == 0
    assert "fake/gpt-4o" in result.json["result"]
    assert result.json["num_turns"] == 0


def test_wrong_use_of_command_is_usage_error(product: Product) -> None:
    result = product.run("-p", "/why bash")

    assert result.exit_code == 2
    assert "Which call?" in result.stderr


def test_command_that_needs_a_screen_is_usage_error(product: Product) -> None:
    result = product.run("-p", "/clear")

    assert result.exit_code == 2
    assert "/clear" in result.stderr
    assert product.service.requests == []


@pytest.mark.parametrize(
    ("typed", "sent"),
    [
        ("//clear the table", "/clear the table"),
        ("/usr/bin/x is broken", "/usr/bin/x is broken"),
        ("/", "/"),
    ],
)
def test_other_text_with_slash_is_a_prompt(product: Product, typed: str, sent: str) -> None:
    assert prompt_blocks(product, typed) == sent


@pytest.mark.parametrize("secret", [".env", "~/.ssh/id_rsa", "/etc/passwd"])
def test_secret_file_is_not_attached(product: Product, secret: str) -> None:
    product.file(".env", "TOKEN=1\n")
    (product.home / ".ssh").mkdir()
    (product.home / ".ssh" / "id_rsa").write_text("key\n")

    result = product.run("-p", f"look at @{secret}")

    assert result.exit_code == 2
    assert f"@{secret} was not attached" in result.stderr
    assert product.service.requests == []


def test_outside_file_is_attached_when_rule_allows_it(product: Product) -> None:
    outside = product.base / "notes.txt"
    outside.write_text("from elsewhere\n")
    refused = product.run("-p", f"look at @{outside}")
    product.will(ModelReply(text="ok"))

    result = product.run("-p", "--allow", f"read:{outside}", f"look at @{outside}")

    assert f"--allow 'read:{outside}'" in refused.stderr
    assert "from elsewhere" in blocks(product)
    assert f"attached {outside}" in result.stderr


def test_mentions_in_stdin_after_words_attach_nothing(product: Product) -> None:
    product.file(".env", "TOKEN=1\n")
    product.file("a.txt", "one\n")
    product.will(ModelReply(text="ok"))

    result = product.run("-p", "summarise", stdin="see @.env and @a.txt\n")

    assert result.exit_code == 0
    assert blocks(product) == "summarise\n\nsee @.env and @a.txt"


@pytest.mark.parametrize(
    "text",
    [
        "see @.env, @a.txt and @nowhere.txt",
        "/compact everything",
        "/model other/model",
        "//etc is a path",
        "/quit",
        "/nothing of that kind",
    ],
)
def test_stdin_alone_is_plain_text_without_mentions_or_commands(
    product: Product, text: str
) -> None:
    product.file(".env", "TOKEN=1\n")
    product.file("a.txt", "one\n")
    product.will(ModelReply(text="ok"))

    result = product.run("-p", stdin=f"{text}\n")

    assert (result.exit_code, result.stdout) == (0, "ok\n")
    assert blocks(product) == text
    assert "attached" not in result.stderr


def test_mentions_in_stdin_of_turn_attach_nothing(product: Product) -> None:
    product.file(".env", "TOKEN=1\n")
    product.will(ModelReply(text="ok"))

    result = product.run("turn", "--session", "s", stdin="see @.env\n")

    assert result.exit_code == 0
    assert blocks(product) == "see @.env"


def test_json_of_command_has_every_result_key(product: Product) -> None:
    product.will(ModelReply(text="ok"))
    usual = product.ask("hi").json
    asked = product.run("-p", "--output-format", "json", "/why bash ls").json

    assert set(asked) == set(usual)
    assert (asked["session_id"], asked["model"], asked["provider"]) == (None, "gpt-4o", "fake")


def test_answer_without_usage_has_unknown_cost(product: Product) -> None:
    product.will(ModelReply(text="ok", usage=(0, 0, 0, 0)))

    assert product.ask("hi").json["total_cost_usd"] is None


def test_alias_of_command_works_in_print_mode(product: Product) -> None:
    product.configure('[aliases]\n"/judge" = "/why"\n')

    result = product.run("-p", "/judge bash git push")

    assert result.exit_code == 0
    assert "git push" in result.stdout
    assert product.service.requests == []


def test_usage_of_command_that_calls_model_is_reported(product: Product) -> None:
    for n in range(3):
        product.will(ModelReply(text=f"tale {n} " + "word " * 3000))
        product.run("-c", "-p", f"tell {n}")
    product.will(ModelReply(text="## Goal\nTell more.", usage=(1000, 50, 0, 0)))
    result = product.ask("-c", "/compact").json
    assert result["usage"]["input_tokens"] == 1000
    assert result["usage"]["output_tokens"] == 50
    assert result["total_cost_usd"] == round((1000 * 2.5 + 50 * 10) / 1e6, 6)
