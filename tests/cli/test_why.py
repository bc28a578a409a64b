"""`dirge why` prints the decision, and executes and writes nothing."""

import json
import subprocess
from typing import Any

import pytest

from dirge_py.cli.why import why_fits
from tests.support.product import Product, finish

POLICIES = {
    "hard-deny",
    "deny-rule",
    "protected",
    "grant",
    "allow-rule",
    "ask-rule",
    "builtin",
    "mode",
    "default",
}


def question(number: Any, tool: str, **arguments: Any) -> str:
    return json.dumps({"id": number, "tool": tool, "input": arguments}) + "\n"


@pytest.mark.parametrize(
    ("words", "effect"),
    [
        (("bash", "git status"), "allow"),
        (("bash", "git", "status"), "allow"),
        (("bash", "make"), "ask"),
        (("bash", "rm -rf /"), "deny"),
        (("read", "a.txt"), "allow"),
        (("read", "/etc/shadow"), "ask"),
        (("write", '{"path": "a.txt", "content": "x"}'), "allow"),
        (("edit", '{"path": ".git/config", "old_text": "a", "new_text": "b"}'), "ask"),
    ],
)
def test_decision_is_printed_as_json(product: Product, words: tuple[str, ...], effect: str) -> None:
    result = product.run("why", *words, "--json")

    assert (result.exit_code, result.stderr) == (0, "")
    assert set(result.json) == {"effect", "policy", "reason", "claims", "trace"}
    assert result.json["effect"] == effect
    assert result.json["policy"] in POLICIES
    for claim in result.json["claims"]:
        assert {"op", "resource", "effect", "policy", "reason"} == set(claim)
    for step in result.json["trace"]:
        assert {"claim", "policy", "effect", "reason"} == set(step)


def test_decision_is_printed_as_text(product: Product) -> None:
    result = product.run_apart("why", "bash", "make")

    assert result.exit_code == 0
    assert "ask" in result.stdout and "make" in result.stdout
    assert "\x1b" not in result.stdout


def test_why_writes_nothing_and_needs_no_provider(product: Product) -> None:
    (product.config_dir / "config.toml").unlink()

    result = product.run("why", "bash", "touch made", "--yolo", env={"FAKE_KEY": ""})

    assert result.exit_code == 0
    assert not product.state_dir.exists()
    assert not (product.project / "made").exists()
    assert list(product.home.iterdir()) == []


def test_rules_and_mode_of_flags_apply(product: Product) -> None:
    def effect(*flags: str) -> str:
        return str(product.run("why", "bash", "make", "--json", *flags).json["effect"])

    assert effect() == "ask"
    assert effect("--allow", "execute:make") == "allow"
    assert effect("--yolo") == "allow"
    assert effect("--permission-mode", "plan") == "deny"
    assert effect("--yolo", "--deny", "execute:make") == "deny"
    assert effect("--allowedTools", "Bash(make)") == "allow"


def test_folder_flags_apply(product: Product) -> None:
    other = product.base / "other"
    other.mkdir()
    asked = ("why", "read", str(other / "a.txt"), "--json")

    assert product.run(*asked).json["effect"] == "ask"
    assert product.run(*asked, "--add-dir", str(other)).json["effect"] == "allow"
    assert product.run(*asked, "-C", str(other)).json["effect"] == "allow"


def test_jsonl_questions_are_answered_in_order_with_ids(product: Product) -> None:
    lines = question(7, "bash", command="ls") + question("b", "read", path="/etc/shadow")

    result = product.run("why", "--jsonl", stdin=lines + question(None, "bash", command="make"))

    assert (result.exit_code, result.stderr) == (0, "")
    assert [(line["id"], line["effect"]) for line in result.lines] == [
        (7, "allow"),
        ("b", "ask"),
        (None, "ask"),
    ]


@pytest.mark.parametrize(
    ("bad", "known_id"),
    [
        ("nonsense\n", None),
        ("[1]\n", None),
        ("5\n", None),
        (question(3, "nonsense", command="x"), 3),
        (question(4, "bash"), 4),
        (question(5, "bash", command=5), 5),
        ('{"id":6,"tool":"bash"}\n', 6),
        ('{"id":7,"tool":["bash"],"input":{}}\n', 7),
        (question(8, "bash", command="ls \ud800"), 8),
        (question(9, "read", path="a\0b"), 9),
        ("[" * 200_000 + "\n", None),
        ('{"id":10,"tool":"bash","input":' + '{"a":' * 200_000 + "\n", None),
    ],
)
def test_invalid_line_gets_error_and_later_lines_are_answered(
    product: Product, bad: str, known_id: Any
) -> None:
    result = product.run("why", "--jsonl", stdin=bad + question("next", "bash", command="ls"))

    assert result.exit_code == 1
    assert result.lines[0].keys() == {"id", "error"}
    assert result.lines[0]["id"] == known_id
    assert (result.lines[1]["id"], result.lines[1]["effect"]) == ("next", "allow")
    assert not product.state_dir.exists()


def test_each_line_is_answered_before_next_is_read(product: Product) -> None:
    process = product.start("why", "--jsonl", stdin=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    for number in range(3):
        process.stdin.write(question(number, "bash", command="ls"))
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == number

    assert finish(process).exit_code == 0


def test_missing_input_is_usage_error(product: Product) -> None:
    result = product.run("why", "bash")

    assert result.exit_code == 2
    assert "needs an input" in result.stderr


def test_unknown_flag_is_reported_with_suggestion(product: Product) -> None:
    result = product.run("why", "bash", "ls", "--jsom")

    assert result.exit_code == 2
    assert "`--json`" in result.stderr


def test_hundreds_of_questions_are_answered_in_order(product: Product) -> None:
    lines = "".join(question(n, "bash", command=f"grep -rn x{n} src | head") for n in range(300))

    result = product.run("why", "--jsonl", stdin=lines)

    assert [line["id"] for line in result.lines] == list(range(300))
    assert {line["effect"] for line in result.lines} == {"allow"}


def test_invalid_utf8_line_does_not_stop_answers(product: Product) -> None:
    raw = b'{"id":1,"tool":"bash","input":{"command":"cat \xff"}}\n'
    (product.project / "lines").write_bytes(raw + question(2, "bash", command="ls").encode())

    with (product.project / "lines").open("rb") as given:
        result = finish(product.start("why", "--jsonl", stdin=given.fileno()))

    assert [line["id"] for line in result.lines] == [1, 2]
    assert result.lines[1]["effect"] == "allow"


def test_output_is_utf8_in_any_locale(product: Product) -> None:
    latin = {"PYTHONIOENCODING": "latin-1"}

    answer = product.run_apart("why", "bash", "echo 雪", "--json", env=latin)
    shown = product.run_apart("--help", env=latin)

    assert "雪" in answer.stdout
    assert shown.exit_code == 0
    assert "…" in shown.stdout


@pytest.mark.parametrize("tool", ["write", "edit"])
def test_path_alone_is_enough_for_file_tools(product: Product, tool: str) -> None:
    result = product.run("why", "--json", tool, "/etc/hosts")

    assert (result.exit_code, result.json["effect"]) == (0, "ask")
    claims = [(claim["op"], claim["resource"]) for claim in result.json["claims"]]
    assert claims == [("read", "/etc/hosts"), ("edit", "/etc/hosts")]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["webfech", "x"], "This was sent as a prompt. Did you mean `dirge why webfetch …`?\n"),
        (
            ["bahs", "ls -l", "--json"],
            "This was sent as a prompt. Did you mean `dirge why bash …`?\n",
        ),
        (["webfech"], ""),
        (["does", "it", "fail"], ""),
        (["the", "test", "is", "red"], ""),
    ],
)
def test_mistyped_tool_name_is_reported_as_prompt(
    capsys: pytest.CaptureFixture[str], words: list[str], expected: str
) -> None:
    assert not why_fits(words)
    assert capsys.readouterr() == ("", expected)


HOSTILE = "echo \x1b]0;TITLE\x07 \x9b31m \u202e b"


def test_control_characters_in_question_are_not_printed(product: Product) -> None:
    result = product.run("why", "bash", HOSTILE)
    as_json = product.run("why", "--json", "bash", HOSTILE)
    lines = product.run("why", "--jsonl", stdin=question("\x9b", "bash", command=HOSTILE))

    for ran in (result, as_json, lines):
        assert ran.exit_code == 0
        assert not {"\x1b", "\x9b", "\u202e"} & set(ran.stdout + ran.stderr)
    assert "<U+001B>]0;TITLE<U+0007> <U+009B>31m <U+202E> b" in result.stdout
    assert as_json.json["claims"][0]["resource"] == HOSTILE
    assert lines.json["id"] == "\x9b"
