"""Flags: known and unknown ones, combinations, and `--help`."""

import re
from argparse import SUPPRESS

import pytest

from dirge_py import __version__
from dirge_py.cli.arguments import build_parser
from tests.support.fake_service import ModelReply
from tests.support.product import Product

BUILT = set(
    """
    -p --print --output-format --input-format --event-format --include-partial-messages -o
    --json-schema
    -c --continue -r --resume --all --session --fork-session --no-session
    -m --model --provider --base-url --thinking --api-key-file --api-key-stdin
    --permission-mode --yolo --accept-all --restrictive
    --allow --deny --allowedTools --disallowedTools --on-ask
    --sandbox --tools --no-tools --add-dir -C --cwd
    --max-turns --max-cost --max-tokens --timeout --line --plan
    --system-prompt --system-prompt-file --append-system-prompt --append-system-prompt-file
    --prompt --config --no-context-files --no-color -v --verbose --record --version -h --help
    """.split()  # noqa: SIM905
)
NOT_BUILT = [*("--agent", "--api-key")]
HIDDEN = {
    "--effort",
    "--max-budget-usd",
    "--max-agent-turns",
    "--session-id",
    "--dangerously-skip-permissions",
}


def test_help_lists_exactly_the_public_flags(product: Product) -> None:
    result = product.run_apart("--help")

    flags = result.stdout.partition("subcommands:")[0]
    listed = set(re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", flags))
    assert (result.exit_code, result.stderr) == (0, "")
    assert listed == BUILT


def test_parser_knows_public_flags_and_hidden_aliases() -> None:
    parser = build_parser()

    known = set(parser._option_string_actions)
    hidden = {
        flag
        for action in parser._actions
        if action.help == SUPPRESS
        for flag in action.option_strings
    }
    assert known == BUILT | HIDDEN
    assert hidden == HIDDEN


@pytest.mark.parametrize("flag", NOT_BUILT)
def test_unsupported_flag_is_usage_error(product: Product, flag: str) -> None:
    result = product.run("-p", flag, "x")

    assert result.exit_code == 2
    assert flag in result.stderr
    assert product.service.requests == []


def test_unknown_flag_is_reported_with_suggestion(product: Product) -> None:
    result = product.run("-p", "--max-turnz", "3", "x")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "`--max-turnz`" in result.stderr
    assert "`--max-turns`" in result.stderr


def test_unknown_output_format_lists_known_ones(product: Product) -> None:
    result = product.run("-p", "--output-format", "xml", "ping")

    assert result.exit_code == 2
    assert all(name in result.stderr for name in ("text", "json", "stream-json"))
    assert product.service.requests == []


def test_version_is_printed_alone(product: Product) -> None:
    assert product.run_apart("--version").stdout == f"dirge {__version__}\n"
    assert product.run("-p", "--version").stdout == f"dirge {__version__}\n"


@pytest.mark.parametrize(
    "words",
    [
        ("--output-format", "json", "x"),
        ("--input-format", "text", "x"),
        ("--on-ask", "deny", "x"),
        ("-o", "f", "x"),
        ("-p", "--event-format", "native", "x"),
        ("-p", "--include-partial-messages", "x"),
        ("-p", "-c", "--no-session", "x"),
        ("-p", "-c", "--session", "a", "x"),
        ("-p", "-c", "-r", "a", "x"),
        ("-p", "-r"),
        ("-p", "-r", "--all"),
        ("--all", "x"),
        ("-r", "a", "--all"),
        ("-p", "--fork-session", "x"),
        ("-p", "--fork-session", "--no-session", "x"),
        ("-p", "--api-key-stdin", "--input-format", "stream-json"),
        ("-p", "--api-key-stdin", "--api-key-file", "f", "x"),
        ("-p", "--tools", "read", "--no-tools", "x"),
        ("-p", "--plan", "--input-format", "stream-json"),
        ("--plan",),
        ("-p", "--system-prompt", "a", "--system-prompt-file", "b", "x"),
        ("-p", "--max-turns", "0", "x"),
        ("-p", "--max-turns", "x", "x"),
        ("-p", "--max-cost", "-1", "x"),
        ("-p", "--timeout", "nan", "x"),
        ("-p", "--thinking", "much", "x"),
        ("-p", "--permission-mode", "loose", "x"),
        ("-p", "--session", "", "x"),
        ("-p", "--config", "nowhere.toml", "x"),
    ],
)
def test_incompatible_flags_are_usage_errors(product: Product, words: tuple[str, ...]) -> None:
    result = product.run(*words, stdin="")

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("dirge: ")
    assert product.service.requests == []


@pytest.mark.parametrize(
    "flags",
    [
        ("--session-id", "mine"),
        ("--effort", "low"),
        ("--max-budget-usd", "1"),
        ("--max-agent-turns", "5"),
        ("--dangerously-skip-permissions",),
    ],
)
def test_flags_of_other_agents_are_accepted(product: Product, flags: tuple[str, ...]) -> None:
    product.will(ModelReply(text="pong"))

    assert product.run("-p", *flags, "ping").stdout == "pong\n"


def test_hidden_alias_sets_session_id(product: Product) -> None:
    product.will(ModelReply(text="pong"))

    assert product.ask("--session-id", "mine", "ping").json["session_id"] == "mine"


def test_exec_is_alias_of_print(product: Product) -> None:
    product.will(ModelReply(text="pong"))

    assert product.run("exec", "ping").stdout == "pong\n"


def test_double_dash_ends_flags(product: Product) -> None:
    product.will(ModelReply(text="ok"))

    product.run("-p", "--", "--yolo", "is", "what?")

    assert product.sent()[-1]["content"] == "--yolo is what?"


def test_flags_may_follow_words(product: Product) -> None:
    product.will(ModelReply(text="pong"))

    assert product.run("ping", "-p", "--output-format", "json").json["result"] == "pong"


@pytest.mark.parametrize(
    "prompt",
    [
        ("why", "does", "the", "build", "fail"),
        ("why", "not"),
        ("demo", "of", "this"),
        ("config", "files", "are", "where?"),
        ("sessions", "are", "what?"),
        ("resume",),
    ],
)
def test_words_that_fit_no_subcommand_are_a_prompt(
    product: Product, prompt: tuple[str, ...]
) -> None:
    product.will(ModelReply(text="ok"))

    product.run("-p", *prompt)
    assert product.sent()[-1]["content"] == " ".join(prompt)

    result = product.run(*prompt)
    assert "terminal" in result.stderr


def test_terminal_ui_without_terminal_is_usage_error(product: Product) -> None:
    result = product.run_forked("do", "it")

    assert result.exit_code == 2
    assert "dirge -p" in result.stderr


@pytest.mark.parametrize("level", ["low", "high"])
def test_model_can_carry_thinking_level(product: Product, level: str) -> None:
    product.will(ModelReply(text="pong"))

    product.run("-p", "-m", f"fake/gpt-5:{level}", "ping")

    body = product.service.requests[0].json
    assert (body["model"], body["reasoning_effort"]) == ("gpt-5", level)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (("confg", "check"), "config check"),
        (("config", "chek"), "config check"),
        (("sesions", "list"), "sessions list"),
        (("stat",), "stats"),
        (("doctr",), "doctor"),
    ],
)
def test_mistyped_subcommand_is_no_prompt(
    product: Product, typed: tuple[str, ...], meant: str
) -> None:
    refused = product.run(*typed)
    assert refused.exit_code == 2
    assert f"Did you mean `dirge {meant}`?" in refused.stderr
    assert f"`dirge -- {' '.join(typed)}` sends it as a prompt." in refused.stderr


@pytest.mark.parametrize(
    "typed",
    [
        "confg the proxy please",
        "sessions slow down my app",
        "who knows",
        "who read it",
        "serves nobody",
    ],
)
def test_sentence_that_begins_like_a_subcommand_is_a_prompt(product: Product, typed: str) -> None:
    assert "the terminal UI needs a terminal" in product.run(*typed.split()).stderr
