"""Calls written as text: which are meant as calls, and which belong to an ordinary answer."""

import json

import pytest

from dirge_py.guards.broken_answers import call_as_text
from dirge_py.types.messages import AssistantMessage, TextBlock, ThinkingBlock, ToolCallBlock
from tests.support.loop_runs import Tool

PATH = {"type": "object", "properties": {"path": {"type": "string"}}}
TEXTS = {"type": "object", "properties": {"path": {}, "old": {}, "new": {}, "content": {}}}
TOOLS = [
    Tool("read", parameters=PATH),
    Tool("edit", parameters=TEXTS),
    Tool("write", parameters=TEXTS),
    Tool("bash", parameters={"type": "object", "properties": {"command": {}}}),
    Tool("todo", parameters={"type": "object", "properties": {"items": {}}}),
]

JSON = '{"name": "read", "arguments": {"path": "a.py"}}'
SYNTAXES = {
    # Claude: https://docs.claude.com, legacy tool use; and prompts of editors such as Cline
    "claude xml": (
        "<function_calls>\n<invoke>\n<tool_name>read</tool_name>\n<parameters>\n<path>a.py</path>\n"
        "</parameters>\n</invoke>\n</function_calls>"
    ),
    "tool name as tag": "<read>\n<path>a.py</path>\n</read>",
    "tool use": '<tool_use>\n<name>read</name>\n<input>{"path": "a.py"}</input>\n</tool_use>',
    "tool call with arguments": (
        "<tool_call>\n<name>read</name>\n<arguments>\n<path>a.py</path>\n</arguments>\n</tool_call>"
    ),
    "fence": f"```json\n{JSON}\n```",
    "fence without a language": f"```\n{JSON}\n```",
    "fence of a list": f"```json\n[\n  {JSON}\n]\n```",
    "fence with markup": f"```xml\n<tool_call>\n{JSON}\n</tool_call>\n```",
    "two fences": f"```json\n{JSON}\n```\n\n```json\n{JSON}\n```",
    "hermes": f"<tool_call>\n{JSON}\n</tool_call>",
    "hermes without an end": f"<tool_call>\n{JSON}",
    "hermes with bad json": '<tool_call>\n{"name": "read", "arguments": {path: a}}\n</tool_call>',
    "hermes truncated": '<tool_call>\n{"name": "read", "arguments": {"path": "a',
    "hermes indented": f"<tool_call>\n    {JSON}\n</tool_call>",
    "glm": ("<tool_call>read\n<arg_key>path</arg_key>\n<arg_value>a.py</arg_value>\n</tool_call>"),
    "qwen coder": (
        "<tool_call>\n<function=read>\n<parameter=path>\na.py\n</parameter>\n</function>\n</tool_call>"
    ),
    # https://github.com/ollama/ollama/issues/16686
    "qwen coder without a beginning": (
        "<function=Read>\n<parameter=path>\na.py\n</parameter>\n</function>\n</tool_call>"
    ),
    # https://github.com/continuedev/continue/issues/13057
    "qwen coder without ends": "<function=write>\n<parameter=path> a\n<parameter=content> hello",
    "llama": '<function=read>{"path": "a.py"}</function>',
    "llama without brackets": 'function=read>{"path": "a.py"}',
    "llama with a token": '<|python_tag|>{"name": "read", "parameters": {"path": "a.py"}}',
    "invoke": (
        '<function_calls>\n<invoke name="read">\n<parameter name="path">a.py</parameter>\n'
        "</invoke>\n</function_calls>"
    ),
    "invoke with a namespace": (
        '<x:function_calls>\n<x:invoke name="read">\n<x:parameter name="path">a.py</x:parameter>\n'
        "</x:invoke>\n</x:function_calls>"
    ),
    "invoke indented": (
        '<function_calls>\n    <invoke name="read">\n        <parameter name="path">a.py'
        "</parameter>\n    </invoke>\n</function_calls>"
    ),
    "invoke without an end": '<invoke name="read">\n<parameter name="path">a.py</parameter>',
    "dsml": (
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="read">\n<｜DSML｜parameter name="path" '
        'string="true">a.py</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>'
    ),
    "deepseek tokens": (
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>read<｜tool▁sep｜>{"path": "a.py"}'
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    ),
    "older deepseek tokens": (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read\n"
        '```json\n{"path": "a.py"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
    ),
    "kimi": (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.read:0"
        '<|tool_call_argument_begin|>{"path": "a.py"}<|tool_call_end|><|tool_calls_section_end|>'
    ),
    "mistral": f"[TOOL_CALLS] [{JSON}]",
    "harmony": (
        "<|start|>assistant<|channel|>commentary to=functions.read <|constrain|>json<|message|>"
        '{"path": "a.py"}<|call|>'
    ),
    "harmony with the name first": (
        "<|start|>assistant to=functions.read<|channel|>commentary json<|message|>"
        '{"path": "a.py"}<|call|>'
    ),
    "harmony without tokens": 'commentary to=functions.read json{"path": "a.py"}',
    "json": JSON,
    "json on several lines": json.dumps(json.loads(JSON), indent=4),
    "openai json": json.dumps(
        {"type": "function", "function": {"name": "read", "arguments": '{"path": "a.py"}'}}
    ),
    "list of openai json": json.dumps(
        {"tool_calls": [{"id": "1", "function": {"name": "read", "arguments": {"path": "a"}}}]}
    ),
    "anthropic json": '{"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a.py"}}',
    "tool and args": '{"tool": "read", "args": {"path": "a.py"}}',
    "react": '{"action": "read", "action_input": {"path": "a.py"}}',
    "tag of another agent's tool": "<read_file>\n<path>a.py</path>\n</read_file>",
    "name of another agent's tool": '{"name": "ReadFile", "arguments": {"path": "a.py"}}',
    "hermes with malformed json": f"<tool_call>\n{JSON[:-2]},}}}}\n</tool_call>",
    "namespaced name": '{"name": "functions.read", "arguments": {"path": "a.py"}}',
}


def answer(text="", thinking="", calls=()):
    blocks = (ThinkingBlock(text=thinking), TextBlock(text), *calls)
    return AssistantMessage(content=blocks)


@pytest.mark.parametrize("written", SYNTAXES.values(), ids=SYNTAXES)
@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "I'll look at the file first.\n\n{}",
        "Sure! Based on your request:\n\n{}\n",
        "The error says that the module is missing.\n{}",
        "Let me check what it contains:\n{}\n\nI will wait for the result.",
        "Sure, here is the tool call to read the file:\n\n{}",
        "Based on the previous output, the next step would be to read the file:\n{}",
        "{}\n\nI'll continue when I have the result.",
    ],
)
def test_d3_written_call_in_any_syntax_is_recognized(written, around):
    assert call_as_text(answer(around.replace("{}", written)), TOOLS) in ("read", "write")


@pytest.mark.parametrize("written", SYNTAXES.values(), ids=SYNTAXES)
@pytest.mark.parametrize("text", ["", "\n", "I will look."])
def test_d3_written_call_at_the_end_of_thinking_is_recognized(written, text):
    message = answer(text, f"The user wants to see the file. I should read it.\n{written}")
    assert call_as_text(message, TOOLS) in ("read", "write")


@pytest.mark.parametrize(
    "written", [each for name, each in SYNTAXES.items() if "fence" not in name and "\n" not in each]
)
def test_d3_written_call_at_the_end_of_a_sentence_is_recognized(written):
    assert call_as_text(answer(f"I'll read it now. {written}"), TOOLS) == "read"


@pytest.mark.parametrize("written", SYNTAXES.values(), ids=SYNTAXES)
@pytest.mark.parametrize(
    "around",
    [
        "For example:\n\n{}\n",
        "A call looks like this:\n\n{}\n\nThe `path` is relative to the workspace.",
        "Here is an example of a call:\n{}",
        "dirge would record it as:\n{}",
        "The log contains:\n\n{}\n",
        "So sieht ein Beispiel aus:\n{}",
    ],
)
def test_written_call_introduced_as_an_example_is_not_a_call(written, around):
    assert call_as_text(answer(around.replace("{}", written)), TOOLS) == ""


@pytest.mark.parametrize("written", SYNTAXES.values(), ids=SYNTAXES)
def test_quoted_call_is_not_a_call(written):
    quoted = "\n".join(f"> {line}" for line in written.splitlines())
    assert call_as_text(answer(f"You wrote:\n\n{quoted}\n"), TOOLS) == ""
    in_a_block = f"````\n2026-01-01 12:00 request\n{written}\n````"
    assert call_as_text(answer(f"Now:\n\n{in_a_block}\n"), TOOLS) == ""


def test_written_call_of_an_unknown_tool_is_not_a_call():
    for written in SYNTAXES.values():
        assert call_as_text(answer(written), [Tool("other", parameters=PATH)]) == ""


ORDINARY = [
    "Done.",
    "The tests pass: 12 passed in 0.3 s.",
    "I fixed the bug in `read()`: it returned `{}` for an empty file.",
    "",
    # documentation about tool calls
    f"The model answers with a call such as `{JSON}`, and dirge runs it.",
    (
        f"A tool call is JSON with a name and arguments:\n\n```json\n{JSON}\n```\n\n"
        "The name must be that of a tool. The arguments follow its schema."
    ),
    (
        f"Hermes writes calls between tags:\n\n```xml\n<tool_call>\n{JSON}\n</tool_call>\n```\n\n"
        "Your server's parser must know this format."
    ),
    f"<tool_call>{JSON}</tool_call> is the syntax that Hermes uses.",
    f"Qwen writes <tool_call>{JSON}</tool_call> when its template is wrong.",
    'Use `<invoke name="read">` to open a call, and `</invoke>` to close it.',
    'The opening tag is <invoke name="read"> and the closing tag is </invoke>.',
    'DeepSeek\'s markup begins with <｜DSML｜invoke name="read"> and is easy to recognize.',
    "Harmony puts `to=functions.read` into the header of the message.",
    "In Harmony, to=functions.read names the recipient; the arguments follow as JSON.",
    (
        "| syntax | call |\n|---|---|\n"
        f"| Hermes | `<tool_call>{JSON}</tool_call>` |\n| Llama | `<function=read>{{}}` |"
    ),
    (
        f"1. The request: tools.\n2. The answer has a call:\n\n   ```json\n   {JSON}\n   ```\n"
        "3. The next request holds its result."
    ),
    f"The server sent this instead of a real call:\n\n```\n{JSON}\n```\n\nUpdate its template.",
    f"You can reproduce it with:\n\n```json\n{JSON}\n```",
    f"The journal stores each call:\n\n```json\n{JSON}\n```",
    # other JSON
    '```json\n{"name": "my-app", "version": "1.0.0", "scripts": {"test": "vitest"}}\n```',
    '{"name": "my-app", "version": "1.0.0", "arguments": {"path": "a"}}',
    '```json\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n```',
    '{"name": "get_weather", "parameters": {"city": "Paris"}}',
    (
        '{"name": "read", "description": "Read a file.", "parameters": {"type": "object", '
        '"properties": {"path": {"type": "string"}}}}'
    ),
    '```json\n{"name": "read", "description": "Read a file.", "input": {"path": "a"}}\n```',
    '{"permissions": {"read": true, "write": false, "bash": "ask"}}',
    '{"tools": [{"name": "read", "arguments": {"path": "a"}}]}',
    '[{"action": "read", "count": 3}, {"action": "write", "count": 1}]',
    f'The body is {{"log": [{JSON}]}} and has one entry.',
    f"The body of the request is {JSON}",
    f'He wrote "{JSON}"',
    # XML and HTML
    "<config>\n  <read>true</read>\n  <write>false</write>\n</config>",
    "XML elements nest:\n\n<note>\n  <to>Ann</to>\n  <body>Hi</body>\n</note>",
    "<read><mode>fast</mode></read> is not valid in this schema.",
    "<todo>\n<item>Write the tests</item>\n<item>Fix the bug</item>\n</todo>",
    "```xml\n<todo>\n  <items>3</items>\n</todo>\n<done/>\n```\n\nThis file lists what is open.",
    '```html\n<tool name="read">\n  <p>Reads a file.</p>\n</tool>\n<hr>\n```',
    "The element `<function=read>` has no closing tag.",
    # code
    '```python\ndef call():\n    return {"name": "read", "arguments": {"path": "a.py"}}\n```',
    "```js\nconst name = 'read';\nfunction read(path) { return fs.readFileSync(path); }\n```",
    '```sh\ncurl -d \'{"name": "read", "arguments": {"path": "a"}}\' localhost\n```',
    "Set `function=read` in the query string, as in /api?function=read&path=a.",
    "function=read {not json} is how the old parser failed.",
    # logs
    f"> 12:00:01 DEBUG <tool_call>{JSON}</tool_call>\n\nThe server didn't parse this.",
    f"12:00:01 DEBUG model said <tool_call>{JSON}</tool_call>",
    f"    12:00:01 {JSON}\n\nThat line shows the cause.",
    f"```\n12:00:01 INFO {JSON}\n12:00:02 INFO done\n```",
    'The trace shows:\n\n```\ncommentary to=functions.read json{"path": "a.py"}\n```\n',
    f"I checked the log. It printed:\n\n```json\n{JSON}\n```\n\nSo the tool parser is off.",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_answer_contains_no_call(text):
    assert call_as_text(answer(text), TOOLS) == ""


def test_call_in_thinking_before_an_ordinary_answer_is_not_a_call():
    thinking = f"I could write {JSON} now.\n{JSON}\nBut I know the answer already."
    assert call_as_text(answer("It is 4.", thinking), TOOLS) == ""


def test_written_call_that_was_also_made_is_not_reported():
    made = ToolCallBlock(id="1", name="read", arguments={"path": "a.py"})
    other = JSON.replace("a.py", "b.py")
    assert call_as_text(answer(JSON, calls=[made]), TOOLS) == ""
    assert call_as_text(answer(other, calls=[made]), TOOLS) == ""
    # Same rule as the loop that runs written calls: only one of the two was made.
    assert call_as_text(answer(f"{JSON}\n{other}", calls=[made]), TOOLS) == "read"


def test_code_block_in_an_argument_belongs_to_the_written_call():
    content = "# Title\n\n```sh\nmake\n```\n\nend"
    written = f'<invoke name="write">\n<parameter name="content">{content}</parameter>\n</invoke>'
    assert call_as_text(answer(f"I'll write it.\n{written}"), TOOLS) == "write"
