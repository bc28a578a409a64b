"""`--json-schema`: a valid answer, or a failure."""

import json
from typing import Any

import pytest

from tests.support.fake_service import ModelReply, RawReply
from tests.support.product import Product

BUGS = {"type": "object", "properties": {"bugs": {"type": "integer"}}, "required": ["bugs"]}
NUMBERS = {"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "integer"}}}
BY_TOOL = '[models."fake/gpt-4o"]\nstructured = false\n'
BY_ANSWER = '[models."fake/gpt-4o"]\nstructured = true\n'
REFUSED = RawReply(
    status=400, body=json.dumps({"error": {"message": "Invalid schema for response_format."}})
)


def submit(**arguments: Any) -> ModelReply:
    return ModelReply(calls=[("submit_result", arguments)])


def tool_names(product: Product, number: int = -1) -> list[str]:
    tools = product.service.requests[number].json.get("tools", [])
    return [each["function"]["name"] for each in tools]


@pytest.fixture
def by_tool(product: Product) -> Product:
    product.configure(BY_TOOL)
    return product


@pytest.fixture
def by_answer(product: Product) -> Product:
    product.configure(BY_ANSWER)
    return product


# -- through a tool


def test_n28_submitted_result_is_the_answer(by_tool: Product) -> None:
    by_tool.file("a.txt", "two bugs\n")
    by_tool.will(ModelReply(calls=[("read", {"path": "a.txt"})]), submit(bugs=2))

    result = by_tool.ask("--json-schema", json.dumps(BUGS), "count").json

    assert (result["structured_output"], result["result"]) == ({"bugs": 2}, '{"bugs":2}')
    assert (result["subtype"], result["exit_code"], result["num_turns"]) == ("success", 0, 2)
    assert "submit_result" in tool_names(by_tool)
    assert "response_format" not in by_tool.service.requests[0].json
    assert by_tool.sent_text(0).count("submit_result") >= 2, "described and offered"


def test_text_output_of_structured_result_is_one_json_line(by_tool: Product) -> None:
    by_tool.will(ModelReply(text="I count.", calls=[("submit_result", {"bugs": 3})]))

    result = by_tool.run("-p", "-o", "out.json", "--json-schema", json.dumps(BUGS), "count")

    assert (result.exit_code, result.stdout, result.stderr) == (0, '{"bugs":3}\n', "")
    assert (by_tool.project / "out.json").read_text() == '{"bugs":3}\n'


def test_text_output_of_structured_result_escapes_control_characters(product: Product) -> None:
    product.configure(BY_TOOL)
    schema = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
    product.will(ModelReply(calls=[("submit_result", {"word": "\x9b31m \u202e \x7f"})]))

    result = product.run("-p", "--json-schema", json.dumps(schema), "a word")

    assert result.stdout == '{"word":"\\u009b31m \\u202e \\u007f"}\n'


@pytest.mark.parametrize("shape", ["claude", "native"])
def test_last_line_contains_structured_output(by_tool: Product, shape: str) -> None:
    by_tool.will(submit(bugs=3))
    flags = ("--output-format", "stream-json", "--event-format", shape)

    result = by_tool.run("-p", *flags, "--json-schema", json.dumps(BUGS), "count")

    last = result.lines[-1]
    assert (last["type"], last["structured_output"], last["result"]) == (
        "result",
        {"bugs": 3},
        '{"bugs":3}',
    )


def test_invalid_result_is_explained_and_requested_again(by_tool: Product) -> None:
    by_tool.will(ModelReply(text="There are many."), submit(bugs="many"), submit(bugs=7))

    result = by_tool.ask("--json-schema", json.dumps(BUGS), "count").json

    assert result["structured_output"] == {"bugs": 7}
    assert by_tool.sent(1)[-1]["role"] == "user"
    assert "Call `submit_result`" in json.dumps(by_tool.sent(1)[-1])
    [tool_result] = [m["content"] for m in by_tool.sent(2) if m["role"] == "tool"]
    assert "bugs: 'many' is not of type 'integer'" in tool_result and "attempt 2/3" in tool_result


def test_a18_structured_output_fails_after_three_retries(by_tool: Product) -> None:
    by_tool.will(*(submit(bugs="x" * n) for n in range(1, 6)))

    process = by_tool.ask("--json-schema", json.dumps(BUGS), "count")

    result = process.json
    assert (process.exit_code, result["subtype"]) == (1, "error_during_execution")
    assert (result["error"]["kind"], "structured_output" in result) == ("schema", False)
    assert "never matched the schema" in result["error"]["message"]
    assert '{"bugs":"xxxx"}' in result["error"]["message"], "the last one, so that it is not lost"
    assert len(by_tool.service.requests) == 4
    results = [m["content"] for m in by_tool.sent(3) if m["role"] == "tool"]
    assert [text[14:25] for text in results] == [f"attempt {n}/3" for n in (1, 2, 3)]


def test_text_output_without_valid_result_is_empty(by_tool: Product) -> None:
    by_tool.will(*[ModelReply(text="Seven, I think.")] * 4)

    result = by_tool.run("-p", "--json-schema", json.dumps(BUGS), "count")

    assert (result.exit_code, result.stdout) == (1, "")
    assert "never matched the schema" in result.stderr and "Seven, I think." in result.stderr


@pytest.mark.parametrize("mode", ["standard", "restrictive", "plan"])
def test_submit_result_is_allowed_in_every_mode(by_tool: Product, mode: str) -> None:
    by_tool.will(submit(bugs=1))
    flags = ("--permission-mode", mode, "--no-tools")

    result = by_tool.ask(*flags, "--json-schema", json.dumps(BUGS), "count").json

    assert (result["structured_output"], result["permission_denials"]) == ({"bugs": 1}, [])
    assert tool_names(by_tool) == ["submit_result"]


def test_schema_that_is_no_object_is_wrapped_in_one(by_tool: Product) -> None:
    by_tool.will(submit(result=[1, "2"]), submit(result=[1, 2]))

    result = by_tool.ask("--json-schema", json.dumps(NUMBERS), "which?").json

    assert (result["structured_output"], result["result"]) == ([1, 2], "[1,2]")
    [parameters] = [
        each["function"]["parameters"]
        for each in by_tool.service.requests[0].json["tools"]
        if each["function"]["name"] == "submit_result"
    ]
    assert parameters["type"] == "object" and list(parameters["properties"]) == ["result"]


def test_turn_limit_applies_to_structured_output(by_tool: Product) -> None:
    by_tool.will(ModelReply(text="Many."), ModelReply(text="Very many."), submit(bugs=1))

    result = by_tool.ask("--max-turns", "2", "--json-schema", json.dumps(BUGS), "count")

    assert (result.exit_code, result.json["subtype"]) == (53, "error_max_turns")
    assert "structured_output" not in result.json


# -- through the service


def test_schema_is_sent_to_provider_that_supports_it(by_answer: Product) -> None:
    by_answer.will(ModelReply(text=' {"bugs": 2}\n'))

    result = by_answer.ask("--json-schema", json.dumps(BUGS), "count").json

    assert (result["structured_output"], result["result"]) == ({"bugs": 2}, '{"bugs":2}')
    wanted = by_answer.service.requests[0].json["response_format"]
    assert wanted["type"] == "json_schema"
    assert list(wanted["json_schema"]["schema"]["properties"]) == ["bugs"]
    assert "submit_result" not in tool_names(by_answer)


def test_schema_is_sent_in_format_of_provider(product: Product) -> None:
    product.configure(wire="anthropic", model="claude-sonnet-5")
    product.will(ModelReply(text='{"bugs": 2}'))

    result = product.ask("--json-schema", json.dumps(BUGS), "count").json

    assert result["structured_output"] == {"bugs": 2}
    shape = product.service.requests[0].json["output_config"]["format"]
    assert (shape["type"], list(shape["schema"]["properties"])) == ("json_schema", ["bugs"])


def test_fallback_model_without_support_gets_schema_as_text(by_answer: Product) -> None:
    by_answer.configure(
        f'models = ["gpt-4.1"]\n{BY_ANSWER}[models."fake/gpt-4.1"]\nstructured = false\n'
        '[roles]\nfallback = "fake/gpt-4.1"\n'
    )
    # A quota error is not retried, so the fallback answers at once.
    no_quota = {"error": {"message": "You exceeded your quota.", "code": "insufficient_quota"}}
    by_answer.will(RawReply(status=429, body=json.dumps(no_quota)), ModelReply(text='{"bugs": 2}'))

    result = by_answer.ask("--json-schema", json.dumps(BUGS), "count").json

    assert result["structured_output"] == {"bugs": 2}
    asked = by_answer.service.requests[1].json
    assert (asked["model"], "response_format" in asked) == ("gpt-4.1", False)
    assert "fits this JSON Schema" in by_answer.sent_text(1)


def test_answer_of_provider_is_validated_against_schema(by_answer: Product) -> None:
    by_answer.will(ModelReply(text="Two."), ModelReply(text='```json\n{"bugs": "2"}\n```'))
    by_answer.will(ModelReply(text='```json\n{"bugs": 2}\n```'))

    result = by_answer.ask("--json-schema", json.dumps(BUGS), "count").json

    assert (result["structured_output"], result["num_turns"]) == ({"bugs": 2}, 3)
    assert "It is not JSON alone" in json.dumps(by_answer.sent(1)[-1])
    assert "bugs: '2' is not of type 'integer'" in json.dumps(by_answer.sent(2)[-1])


def test_provider_that_never_matches_schema_fails_run(by_answer: Product) -> None:
    by_answer.will(*[ModelReply(text='{"bugs": null}')] * 4)

    result = by_answer.ask("--json-schema", json.dumps(BUGS), "count")

    assert (result.exit_code, result.json["error"]["kind"]) == (1, "schema")
    assert '{"bugs": null}' in result.json["error"]["message"]
    assert len(by_answer.service.requests) == 4


def test_provider_that_rejects_schema_falls_back_to_tool(by_answer: Product) -> None:
    by_answer.file("a.txt", "two bugs\n")
    by_answer.will(REFUSED, ModelReply(calls=[("read", {"path": "a.txt"})]), submit(bugs=2))

    result = by_answer.ask("--json-schema", json.dumps(BUGS), "count")

    assert (result.exit_code, result.json["structured_output"]) == (0, {"bugs": 2})
    assert result.stderr.count("rejects the schema") == 1
    assert ["response_format" in each.json for each in by_answer.service.requests] == [
        *(True, False, False)
    ]
    assert "submit_result" in tool_names(by_answer, 1)


# -- turns, resume and stream input


def test_stream_input_prompt_gets_structured_output(by_tool: Product) -> None:
    by_tool.will(submit(bugs=1))
    line = json.dumps({"type": "user", "message": {"role": "user", "content": "count"}})
    flags = ("--input-format", "stream-json", "--output-format", "json")

    result = by_tool.run("-p", *flags, "--json-schema", json.dumps(BUGS), stdin=f"{line}\n")

    assert (result.exit_code, result.json["structured_output"]) == (0, {"bugs": 1})


def test_schema_retries_are_counted_across_turns(by_tool: Product) -> None:
    by_tool.will(*(submit(bugs="x" * n) for n in range(1, 6)))
    flags = ("--output-format", "json", "--json-schema", json.dumps(BUGS))

    first = by_tool.run("turn", "--session", "s", *flags, "--input", "count")
    more = [by_tool.run("turn", "--session", "s", *flags) for _ in range(3)]

    assert [ran.exit_code for ran in (first, *more)] == [10, 10, 10, 1]
    assert more[-1].json["error"]["kind"] == "schema"


def test_deferred_run_ends_with_structured_output(by_tool: Product) -> None:
    by_tool.will(
        ModelReply(calls=[("bash", {"command": "touch x"}), ("submit_result", {"bugs": 4})])
    )
    schema = ("--json-schema", json.dumps(BUGS))
    waiting = by_tool.ask("--on-ask", "defer", *schema, "count")
    by_tool.will(submit(bugs=5))

    result = by_tool.run(
        *("resume", waiting.json["continuation"], "--confirm", "--output-format", "json"), *schema
    )

    assert (waiting.exit_code, "structured_output" in waiting.json) == (11, False)
    assert (result.exit_code, result.json["structured_output"]) == (0, {"bugs": 5})


def test_run_continued_after_limit_ends_with_structured_output(by_tool: Product) -> None:
    by_tool.will(ModelReply(text="Many."), submit(bugs=4))
    schema = ("--json-schema", json.dumps(BUGS))
    stopped = by_tool.ask("--max-turns", "1", *schema, "count")

    result = by_tool.ask("-c", *schema, "/continue")

    assert (stopped.exit_code, result.exit_code) == (53, 0), result.stderr
    assert result.json["structured_output"] == {"bugs": 4}


# -- wrong usage


def test_schema_file_is_relative_to_start_folder(by_tool: Product) -> None:
    by_tool.file("schemas/bugs.json", json.dumps(BUGS))
    by_tool.file("deep/a.txt")
    by_tool.will(submit(bugs=1))

    result = by_tool.ask("-C", "deep", "--json-schema", "@schemas/bugs.json", "count").json

    assert result["structured_output"] == {"bugs": 1}


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("{", "not JSON"),
        ("", "not JSON"),
        ("true", "must be a JSON object"),
        ("[1]", "must be a JSON object"),
        ('{"type":"objekt"}', "'objekt' is not one of ['array', 'boolean'"),
        ('{"type":"number","minimum":NaN}', "NaN is not a JSON number"),
        ('{"not":' * 500 + "{}" + "}" * 500, "nested too deeply"),
        ("@empty.json", "--json-schema {project}/empty.json is not JSON"),
        ('{"$ref":"https://example.com/s.json"}', "leads nowhere"),
        ('{"properties":{"a":{"$ref":"#/$defs/b"}}}', "leads nowhere"),
        ('{"$ref":"#"}', "without end"),
        ("@missing.json", "No such file"),
        ("@.", "Is a directory"),
        ("@latin.json", "not UTF-8"),
    ],
)
def test_invalid_schema_is_reported_before_request(
    product: Product, schema: str, words: str
) -> None:
    product.file("latin.json", b'{"title":"\xe9"}')
    product.file("empty.json")

    result = product.ask("--json-schema", schema, "count")

    assert (result.exit_code, result.stdout) == (2, "")
    assert words.format(project=product.project) in result.stderr
    assert "@ before it" not in result.stderr or not schema.startswith("@"), "it is there"
    assert product.service.requests == []


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("count",), "only works with -p"),
        (("-p", "--plan", "mend it"), "cannot be combined"),
        (("-p", "/plan mend it"), "not with the command /plan"),
        (("-p", "/cost"), "not with the command /cost"),
    ],
)
def test_schema_flag_without_answered_prompt_is_usage_error(
    product: Product, words: tuple[str, ...], why: str
) -> None:
    result = product.run("--json-schema", json.dumps(BUGS), *words)

    assert (result.exit_code, why in result.stderr) == (2, True), result.stderr
    assert product.service.requests == []
