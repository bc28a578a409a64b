"""Repairs, limits and reminders of the loop, as a script sees them."""

import json
import re
from pathlib import Path
from typing import Any

from tests.support.fake_service import ModelReply, RawReply, ReceivedRequest
from tests.support.product import ComputedReply, ProcessResult, Product

LOOK = ModelReply(calls=[("list_dir", {"path": "."})])
TOO_LONG = RawReply(
    status=400,
    body='{"error":{"message":"maximum context length","code":"context_length_exceeded"}}',
)
SUMMARY = ModelReply(text="## Active task\nTell more.\n## Goal\nA tale.")


def native(product: Product, *words: str) -> ProcessResult:
    return product.run("-p", "--output-format", "stream-json", "--event-format", "native", *words)


def events(result: ProcessResult, kind: str) -> list[Any]:
    return [line for line in result.lines if line["type"] == kind]


def journal(product: Product) -> str:
    return "".join(path.read_text() for path in product.journals)


def user_texts(product: Product, number: int = -1) -> list[str]:
    """The texts of user messages in one request."""
    return [m["content"] for m in product.sent(number) if m["role"] == "user"]


# -- storm


def test_storm_guard_ends_run_with_message_and_exit_code_0(product: Product) -> None:
    product.will(LOOK, LOOK, LOOK, LOOK)
    result = product.run("-p", "look")

    assert result.exit_code == 0
    assert result.stdout.startswith("I kept repeating `list_dir` without learning anything new")
    assert len(product.service.requests) == 4


def test_storm_guard_is_reported_in_native_events(product: Product) -> None:
    product.will(LOOK, LOOK, LOOK, LOOK)
    result = native(product, "look")

    [end] = events(result, "agent_end")
    assert end["outcome"] == {"kind": "Done", "stopped_by": "storm"}
    counts = [e["result"]["details"].get("storm") for e in events(result, "tool_execution_end")]
    assert [count and count["count"] for count in counts[:3]] == [None, None, 3]


def test_disabled_storm_guard_lets_calls_repeat(product: Product) -> None:
    product.configure("[loop.storm]\nenabled = false\n")
    product.will(LOOK, LOOK, LOOK, LOOK, ModelReply(text="Seen."))
    result = product.run("-p", "look")

    assert (result.exit_code, result.stdout) == (0, "Seen.\n")


# -- recoveries


def test_answer_cut_by_connection_is_continued(product: Product) -> None:
    cut = ModelReply(text="The first half, ", delta_chars=4, after_bytes=900, then="reset")
    product.will(cut, ModelReply(text="and the second."))
    result = product.run("-p", "tell me")

    assert result.exit_code == 0
    assert "and the second." in result.stdout
    assert re.match(r"dirge: retrying in 1 s \(attempt 1\): ", result.stderr), result.stderr
    assert user_texts(product)[-1].startswith("[Your answer was cut off by a broken connection.")


def test_answer_cut_without_recoveries_ends_run(product: Product) -> None:
    product.configure("[loop]\nrecoveries = 0\n")
    product.will(ModelReply(text="The first half, ", delta_chars=4, after_bytes=900, then="reset"))
    result = product.run("-p", "tell me")

    assert result.exit_code == 75
    assert len(product.service.requests) == 1


def test_context_overflow_is_compacted_and_retried(product: Product) -> None:
    product.configure("[context]\nwindow_tokens = 100000\n")
    for n in range(4):
        product.will(ModelReply(text=f"tale {n} " + "word " * 9000))
        assert product.run("-c", "-p", f"tell {n}").exit_code == 0
    product.will(TOO_LONG, SUMMARY, ModelReply(text="The end."))
    result = native(product, "-c", "and then?")

    assert result.exit_code == 0, result.stderr
    assert result.lines[-1]["result"] == "The end."
    [fold] = events(result, "context_compacted")
    assert fold["kind"] == "summary"
    assert fold["tokens_after"] < fold["tokens_before"]
    assert set(fold) >= {"first_kept_index", "summary", "summary_model"}
    assert re.search(
        r"dirge: Context compacted: about \d+k → \d+k tokens, summary by", result.stderr
    )
    assert len(product.sent_text(-1)) < len(product.sent_text(-3))


def test_compact_command_prints_one_notice(product: Product) -> None:
    product.configure("[context]\nwindow_tokens = 40000\n")
    for n in range(3):
        product.will(ModelReply(text=f"tale {n} " + "word " * 3000))
        assert product.run("-c", "-p", f"tell {n}").exit_code == 0
    product.will(SUMMARY, ModelReply(text="The end."))
    result = product.run("-c", "-p", "/compact the heroes")
    after = product.run("-c", "-p", "and then?")

    assert (result.exit_code, result.stderr) == (0, "")
    assert re.match(r"Compacted\. [\d,]+ → [\d,]+ tokens \(estimated\)\.", result.stdout)
    assert "the heroes" in product.sent_text(-2)
    assert after.stdout == "The end.\n"
    assert "Tell more." in product.sent_text()
    assert journal(product).count("tale 0") >= 1


def test_context_overflow_without_compaction_ends_run(product: Product) -> None:
    product.will(TOO_LONG)
    result = product.run("-p", "hello")

    assert result.exit_code == 1
    assert "does not fit into the model's window" in result.stderr


# -- broken answers

AS_TEXT = (
    '<tool_call>\n{"name": "write", "arguments": {"path": "a.txt", "content": "x"}}\n</tool_call>'
)
WRITE = ModelReply(calls=[("write", {"path": "a.txt", "content": "x\n"})])


def test_d3_call_written_as_text_is_requested_as_tool_call(product: Product) -> None:
    product.will(ModelReply(text=AS_TEXT), WRITE, ModelReply(text="Written."))
    result = product.run("-p", "--yolo", "write a file")

    assert (result.exit_code, result.stdout) == (0, "Written.\n")
    assert user_texts(product)[-1].startswith("You wrote a call of `write` as text")
    assert (product.project / "a.txt").read_text() == "x\n"


def test_d3_call_repeatedly_written_as_text_fails_with_exit_code_1(
    product: Product,
) -> None:
    product.will(*[ModelReply(text=AS_TEXT)] * 3)
    result = product.run("-p", "--yolo", "write a file")

    assert (result.exit_code, len(product.service.requests)) == (1, 3)
    assert "tool_call" not in result.stdout
    assert "a call of `write` as text 3 times instead of making it." in result.stderr
    assert "Use a model that supports tool calls." in result.stderr
    assert not (product.project / "a.txt").exists()


def test_d3_scavenged_text_runs_reads_but_no_changes(product: Product) -> None:
    product.configure("[loop]\nscavenge = true\n")
    product.file("note.txt", "remember\n")
    looks = (
        AS_TEXT.replace("write", "read").replace(', "content": "x"', "").replace("a.t", "note.t")
    )
    product.will(ModelReply(text=looks), ModelReply(text=AS_TEXT), ModelReply(text="Left."))
    result = product.ask("--yolo", "look, and write a file")

    assert (result.exit_code, result.json["result"]) == (0, "Left.")
    assert "remember" in product.sent_text(1)
    assert user_texts(product)[-1].startswith("You wrote a call of `write` as text")
    assert not (product.project / "a.txt").exists()


def test_d9_empty_answer_is_requested_again_once(product: Product) -> None:
    product.will(ModelReply(text=""), ModelReply(text="Here."))
    result = product.run("-p", "say something")

    assert (result.exit_code, result.stdout) == (0, "Here.\n")
    assert "empty answer" not in result.stderr


def test_d9_two_empty_answers_fail_with_exit_code_1_and_can_be_continued(product: Product) -> None:
    product.will(ModelReply(text=""), ModelReply(text=" "), ModelReply(text="Here."))
    result = product.ask("say something")

    assert result.exit_code == 1
    assert result.json["error"]["kind"] == "empty_answer"
    assert result.json["error"]["message"] == "The model gave an empty answer twice in a row."
    assert product.ask("-c", "/continue").json["result"] == "Here."


def test_d9_empty_answer_is_reported_once_in_text_mode(product: Product) -> None:
    product.will(ModelReply(text=""), ModelReply(text=""))
    result = product.run("-p", "say something")

    assert (result.exit_code, result.stdout.strip()) == (1, "")
    assert result.stderr.count("empty answer") == 1


def test_d9_empty_answer_in_last_turn_is_the_error(product: Product) -> None:
    product.will(ModelReply(text=""))
    result = product.ask("--max-turns", "1", "say something")

    assert (result.exit_code, result.json["error"]["kind"]) == (1, "empty_answer")


# -- escalation


def strong(product: Product, *replies: dict[str, Any]) -> None:
    """A second, scripted provider for escalation."""
    script = product.config_dir / "strong.json"
    script.write_text(json.dumps({"replies": list(replies)}))
    product.configure(
        '[providers.strong]\ntype = "scripted"\nmodel = "big"\nscript = "strong.json"\n'
        '[roles]\nescalate = "strong"\n'
    )


def test_escalation_model_makes_call_after_invalid_arguments(product: Product) -> None:
    product.file("a.txt", "found me\n")
    strong(product, {"calls": [{"name": "read", "arguments": {"path": "a.txt"}}]})
    product.will(
        ModelReply(calls=[("read", {"offset": "many"})]), ModelReply(text="It says: found me.")
    )
    result = native(product, "read it")

    assert result.lines[-1]["result"] == "It says: found me."
    [event] = events(result, "escalation_activated")
    assert (event["provider"], event["reason"]) == ("strong/big", "repair_exhausted: read")
    assert (
        "dirge: strong/big takes over for the next call: "
        "the arguments of `read` were wrong again and again." in (result.stderr)
    )
    assert len(product.service.requests) == 2
    assert "found me" in product.sent_text()
    models = [
        m["message"]["model"] for m in events(result, "message_end") if "model" in m["message"]
    ]
    assert ["big" in model for model in models] == [False, True, False]


def test_model_keeps_its_call_without_escalation_role(product: Product) -> None:
    product.will(ModelReply(calls=[("read", {"offset": "many"})]), ModelReply(text="No."))
    result = native(product, "read it")

    assert events(result, "escalation_activated") == []
    assert result.lines[-1]["result"] == "No."


# -- arguments


def test_simple_argument_errors_are_repaired_and_counted(product: Product) -> None:
    product.file("a.txt", "found me\n")
    product.will(
        ModelReply(calls=[("read", {"args": {"filename": "a.txt"}})]), ModelReply(text="Read.")
    )
    result = native(product, "read it")

    assert "found me" in product.sent_text()
    [stats] = events(result, "repair_stats")
    assert sum(stats["counts"].values()) >= 1


# -- gates


def edit(product: Product) -> None:
    product.file("calc.py", "def two():\n    return 3\n")
    product.will(
        ModelReply(calls=[("read", {"path": "calc.py"})]),
        ModelReply(calls=[("edit", {"path": "calc.py", "old_text": "3", "new_text": "2"})]),
    )


def test_edited_code_without_test_run_is_sent_back_once(product: Product) -> None:
    edit(product)
    product.will(ModelReply(text="Done."), ModelReply(text="There is no test."))
    result = product.run("-p", "mend it")

    assert result.exit_code == 0
    assert (
        "calc.py`, and nothing has run, built, tested or linted it since" in user_texts(product)[-1]
    )
    assert "There is no test." in result.stdout


def test_passing_test_run_satisfies_verifier_gate(product: Product) -> None:
    edit(product)
    product.file("test_calc.py", "import calc\n\nassert calc.two() == 2\n")
    product.will(
        ModelReply(calls=[("bash", {"command": "python3 test_calc.py && echo pytest ok"})]),
        ModelReply(text="Done."),
    )
    result = product.run("-p", "--allow", "execute:python3 *", "mend it")

    assert (result.exit_code, result.stdout) == (0, "Done.\n")
    assert user_texts(product) == ["mend it"]


def test_several_failed_calls_in_a_row_trigger_a_reminder(product: Product) -> None:
    product.will(*[ModelReply(calls=[("read", {"path": f"no{n}.txt"})]) for n in range(3)])
    product.will(ModelReply(text="There is none."))
    product.configure("[loop.gates]\nresume = 0\n")
    result = product.run("-p", "read them")

    assert result.exit_code == 0
    assert "3 calls in a row failed." in user_texts(product)[-1]


def test_run_of_failing_calls_ends_with_exit_code_0(product: Product) -> None:
    product.will(*[ModelReply(calls=[("read", {"path": f"no{n}.txt"})]) for n in range(20)])
    result = native(product, "read them")

    [end] = events(result, "agent_end")
    assert (result.exit_code, end["outcome"]) == (0, {"kind": "Done", "stopped_by": "storm"})
    assert len(product.service.requests) == 9
    assert "My last 9 attempts failed" in journal(product)


def test_waiting_command_may_repeat_same_result(product: Product) -> None:
    wait = ModelReply(calls=[("bash", {"command": "sleep 0; echo pending"})])
    product.will(*[wait] * 8, ModelReply(text="It takes long."))
    result = product.run("-p", "--yolo", "wait for it")

    assert (result.exit_code, result.stdout) == (0, "It takes long.\n")
    tools = [m["content"] for m in product.sent() if m["role"] == "tool"]
    assert ["The result was the same 3 times." in text for text in tools] == [
        n == 2 for n in range(8)
    ]


def test_alternating_reads_and_failing_edits_trigger_storm_guard(product: Product) -> None:
    product.file("a.py", "x = 1\n")
    for n in range(20):
        edit = {"path": "a.py", "old": f"y = {n}", "new": "z"}
        product.will(ModelReply(calls=[("read", {"path": "a.py"})]))
        product.will(ModelReply(calls=[("edit", edit)]))
    result = product.run("-p", "--accept-all", "mend it")

    assert result.exit_code == 0
    assert result.stdout.startswith("I kept repeating `read` without learning anything new")
    assert len(product.service.requests) == 7


def test_open_todos_send_run_back_and_are_restored_on_resume(product: Product) -> None:
    items = [{"id": "1", "text": "write it"}, {"id": "2", "text": "test it"}]
    done = [{**item, "status": "done"} for item in items]
    product.will(
        ModelReply(calls=[("todo", {"items": items})]),
        ModelReply(text="That is the plan."),
        ModelReply(text="More later."),
    )
    first = product.run("-p", "plan it")
    nudges = [text for text in user_texts(product) if "still open on your todo list" in text]
    product.will(ModelReply(calls=[("todo", {"items": done})]), ModelReply(text="All done."))
    second = product.run("-c", "-p", "do it")

    assert (first.exit_code, second.exit_code) == (0, 0)
    assert len(nudges) == 1
    assert "- write it" in nudges[0]
    assert second.stdout.endswith("All done.\n")
    assert len(product.service.requests) == 5


# -- guardrails and reminders

NO_WORD = '[[guardrail]]\non = "{}"\nname = "words"\npattern = "hush"\n'


def test_prompt_stopped_by_input_guardrail_is_not_sent(product: Product) -> None:
    product.configure(NO_WORD.format("input"))
    result = product.run("-p", "say hush")

    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == (
        "dirge: the prompt was not sent: guardrail `words`: it matches `hush`\n"
    )
    assert product.service.requests == []
    assert "hush" not in journal(product)


def test_withheld_answer_is_not_printed_or_stored(product: Product) -> None:
    product.configure(NO_WORD.format("output"))
    product.will(*[ModelReply(text="The word is hush.", delta_chars=4)] * 3)
    text = product.run("-p", "which word?")
    lines = product.run("-p", "--output-format", "stream-json", "which word?")

    for ran in (text, lines, native(product, "which word?")):
        assert ran.exit_code == 1
        assert "is hush" not in ran.stdout + ran.stderr
    assert text.stderr == ("dirge: the answer was withheld: guardrail `words`: it matches `hush`\n")
    assert lines.lines[-1]["is_error"] is True
    assert "is hush" not in journal(product)


def test_reminder_is_sent_but_not_stored(product: Product) -> None:
    product.configure('[[reminder]]\nevery_turns = 1\ntext = "Mind the changelog."\n')
    product.will(LOOK, ModelReply(text="Done."))
    result = product.run("-p", "go")

    assert result.exit_code == 0
    for number in (0, 1):
        assert product.sent_text(number).count("Mind the changelog.") == 1
    assert "Mind the changelog." not in journal(product)


# -- large results


def kept(text: str) -> Path:
    """The file with the whole result that the model's text names."""
    found = re.search(r"/\S+/output/[^\s\]\"',;]+\.txt", text)
    assert found, text[-2000:]
    return Path(found[0])


def test_spilled_result_file_can_be_read_by_model(product: Product) -> None:
    product.configure("[tools]\nresult_budget_chars = 6000\n")
    lines = "".join(f"line {n} of the long file\n" for n in range(900))
    product.file("long.txt", lines)

    def read_on(request: ReceivedRequest) -> ModelReply:
        return ModelReply(
            calls=[("read", {"path": str(kept(request.json["messages"][-1]["content"]))})]
        )

    product.will(ModelReply(calls=[("read", {"path": "long.txt"})]), ComputedReply(read_on))
    product.will(ModelReply(text="Read."))
    result = product.ask("read it")

    assert (result.exit_code, result.json["permission_denials"]) == (0, [])
    [first, second] = [m["content"] for m in product.sent() if m["role"] == "tool"]
    assert "line 899 of the long file" in kept(first).read_text()
    assert len(first) < 7000
    assert "line 0 of the long file" in second


# -- machine-readable output


def test_harness_messages_are_synthetic_in_claude_format(product: Product) -> None:
    edit(product)
    product.will(ModelReply(text="Done."), ModelReply(text="There is no test."))
    result = product.run("-p", "--output-format", "stream-json", "mend it")

    synthetic = [line for line in result.lines if line.get("isSynthetic")]
    assert [line["type"] for line in synthetic] == ["user"]
    assert "nothing has run, built, tested" in synthetic[0]["message"]["content"][0]["text"]


def test_compaction_by_provider_is_a_content_block(product: Product) -> None:
    product.configure(wire="anthropic", model="claude-sonnet-4-5")
    product.will(folded("What was said before.", "Going on."))
    result = product.run("-p", "--output-format", "stream-json", "go on")

    [answer] = [line for line in result.lines if line["type"] == "assistant"]
    assert {"type": "compaction", "content": "What was said before."} in answer["message"][
        "content"
    ]
    assert result.lines[-1]["result"] == "Going on."


def folded(summary: str, text: str) -> RawReply:
    """An answer of Anthropic's service that begins with compacted history."""
    pieces: list[dict[str, Any]] = [
        {
            "type": "message_start",
            "message": {"id": "m", "usage": {"input_tokens": 900, "output_tokens": 1}},
        },
        *_block(0, {"type": "compaction"}, {"type": "compaction_delta", "content": summary}),
        *_block(1, {"type": "text", "text": ""}, {"type": "text_delta", "text": text}),
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 20},
        },
        {"type": "message_stop"},
    ]
    body = "".join(f"event: {p['type']}\ndata: {json.dumps(p)}\n\n" for p in pieces)
    return RawReply(body=body)


def _block(index: int, start: dict[str, Any], delta: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        {"type": "content_block_delta", "index": index, "delta": delta},
        {"type": "content_block_stop", "index": index},
    ]
