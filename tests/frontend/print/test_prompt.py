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
def test_what_was_sent_is_the_beginning_of_what_is_sent_next(product: Product, wire: Wire) -> None:
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


def test_the_projects_instructions_are_sent(product: Product) -> None:
    product.file("AGENTS.md", "Use tabs, always.\n")
    prompt_blocks(product, "x")

    assert "Use tabs, always." in system(product)


def test_the_projects_instructions_can_be_left_out(product: Product) -> None:
    product.file("AGENTS.md", "Use tabs, always.\n")
    prompt_blocks(product, "--no-context-files", "x")

    assert "Use tabs" not in system(product)


def test_the_instructions_can_be_replaced_and_added_to(product: Product) -> None:
    prompt_blocks(product, "x")
    usual = system(product)
    prompt_blocks(product, "--system-prompt", "Speak like a pirate.", "x")
    replaced = system(product)
    product.file("more.txt", "Be brief.")
    prompt_blocks(product, "--append-system-prompt-file", "more.txt", "x")
    added = system(product)

    assert "pirate" in replaced and usual[:60] not in replaced
    assert usual[:60] in added and "Be brief." in added


def test_a_file_is_attached_as_its_text(product: Product) -> None:
    product.file("src/a.py", "import this\n")

    text = prompt_blocks(product, "explain @src/a.py please")

    assert "explain @src/a.py please" in text
    assert "import this" in text


def test_a_folder_is_attached_as_its_listing(product: Product) -> None:
    product.file("src/a.py", "import this\n")

    text = prompt_blocks(product, "what is in @src")

    assert "a.py" in text
    assert "import this" not in text


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_an_image_is_attached_as_an_image(product: Product, wire: Wire) -> None:
    product.configure(wire=wire, model={"openai": "gpt-4o", "anthropic": "claude-haiku-4-5"}[wire])
    product.file("dot.png", PNG)

    text = prompt_blocks(product, "look at @dot.png")

    assert base64.b64encode(PNG).decode() in text
    assert "image/png" in text


def test_an_image_is_still_sent_when_the_session_goes_on(product: Product) -> None:
    product.file("dot.png", PNG)
    prompt_blocks(product, "look at @dot.png")
    (product.project / "dot.png").unlink()

    prompt_blocks(product, "-c", "and now?")

    assert base64.b64encode(PNG).decode() in product.sent_text()


def test_an_image_needs_no_session(product: Product) -> None:
    product.file("dot.png", PNG)

    assert base64.b64encode(PNG).decode() in prompt_blocks(
        product, "--no-session", "look at @dot.png"
    )


def test_what_does_not_exist_stays_text(product: Product) -> None:
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
def test_what_cannot_be_attached_stops_before_anything_is_sent(
    product: Product, name: str, content: bytes, words: str
) -> None:
    product.file(name, content)

    result = product.ask(f"look at @{name}")

    assert result.exit_code == 2
    assert words in result.stderr
    assert product.service.requests == []
    assert product.journals == []


def test_a_headless_command_runs_and_asks_no_model(product: Product) -> None:
    result = product.run("-p", "/why bash git push")

    assert result.exit_code == 0
    assert "git push" in result.stdout and "ask" in result.stdout
    assert product.service.requests == []
    assert product.journals == []


def test_a_command_answers_in_json_too(product: Product) -> None:
    result = product.ask("/model")

    assert result.json["exit_code"] == 0
    assert "fake/gpt-4o" in result.json["result"]
    assert result.json["num_turns"] == 0


def test_a_command_that_is_used_wrongly_is_wrong_usage(product: Product) -> None:
    result = product.run("-p", "/why bash")

    assert result.exit_code == 2
    assert "Which call?" in result.stderr


def test_a_command_that_needs_a_screen_is_wrong_usage(product: Product) -> None:
    result = product.run("-p", "/clear")

    assert result.exit_code == 2
    assert "/clear" in result.stderr
    assert product.service.requests == []


@pytest.mark.parametrize(
    ("typed", "sent"),
    [
        ("//clear the table", "/clear the table"),
        ("/usr/bin/x is broken", "/usr/bin/x is broken"),
        ("/nonsense at all", "/nonsense at all"),
        ("/", "/"),
    ],
)
def test_any_other_slash_is_a_prompt(product: Product, typed: str, sent: str) -> None:
    assert prompt_blocks(product, typed) == sent


@pytest.mark.parametrize("secret", [".env", "~/.ssh/id_rsa", "/etc/passwd"])
def test_a_secret_is_not_attached_unasked(product: Product, secret: str) -> None:
    product.file(".env", "TOKEN=1\n")
    (product.home / ".ssh").mkdir()
    (product.home / ".ssh" / "id_rsa").write_text("key\n")

    result = product.run("-p", f"look at @{secret}")

    assert result.exit_code == 2
    assert f"@{secret} was not attached" in result.stderr
    assert product.service.requests == []


def test_what_a_rule_allows_is_attached_and_told(product: Product) -> None:
    outside = product.base / "notes.txt"
    outside.write_text("from elsewhere\n")
    refused = product.run("-p", f"look at @{outside}")
    product.will(ModelReply(text="ok"))

    result = product.run("-p", "--allow", f"read:{outside}", f"look at @{outside}")

    assert f"--allow 'read:{outside}'" in refused.stderr
    assert "from elsewhere" in blocks(product)
    assert f"attached {outside}" in result.stderr


def test_what_is_piped_behind_words_attaches_nothing(product: Product) -> None:
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
def test_what_is_piped_in_alone_is_text_and_nothing_else(product: Product, text: str) -> None:
    product.file(".env", "TOKEN=1\n")
    product.file("a.txt", "one\n")
    product.will(ModelReply(text="ok"))

    result = product.run("-p", stdin=f"{text}\n")

    assert (result.exit_code, result.stdout) == (0, "ok\n")
    assert blocks(product) == text
    assert "attached" not in result.stderr


def test_a_turn_about_what_is_piped_in_attaches_nothing(product: Product) -> None:
    product.file(".env", "TOKEN=1\n")
    product.will(ModelReply(text="ok"))

    result = product.run("turn", "--session", "s", stdin="see @.env\n")

    assert result.exit_code == 0
    assert blocks(product) == "see @.env"


def test_a_command_in_json_has_every_member_of_a_result(product: Product) -> None:
    product.will(ModelReply(text="ok"))
    usual = product.ask("hi").json
    asked = product.run("-p", "--output-format", "json", "/why bash ls").json

    assert set(asked) == set(usual)
    assert (asked["session_id"], asked["model"], asked["provider"]) == (None, "gpt-4o", "fake")


def test_an_answer_without_usage_has_an_unknown_cost(product: Product) -> None:
    product.will(ModelReply(text="ok", usage=(0, 0, 0, 0)))

    assert product.ask("hi").json["total_cost_usd"] is None


def test_an_own_name_of_a_command_works_in_print_mode(product: Product) -> None:
    product.configure('[aliases]\n"/judge" = "/why"\n')

    result = product.run("-p", "/judge bash git push")

    assert result.exit_code == 0
    assert "git push" in result.stdout
    assert product.service.requests == []


def test_what_a_command_asks_of_a_model_is_told_with_its_result(product: Product) -> None:
    for n in range(3):
        product.will(ModelReply(text=f"tale {n} " + "word " * 3000))
        product.run("-c", "-p", f"tell {n}")
    product.will(ModelReply(text="## Goal\nTell more.", usage=(1000, 50, 0, 0)))
    result = product.ask("-c", "/compact").json
    assert result["usage"]["input_tokens"] == 1000
    assert result["usage"]["output_tokens"] == 50
    assert result["total_cost_usd"] == round((1000 * 2.5 + 50 * 10) / 1e6, 6)
