"""`dirge signal` as a process."""

from tests.support.fake_service import ModelReply
from tests.support.product import Product


def test_signal_followed_by_unknown_words_is_a_prompt(product: Product) -> None:
    product.will(ModelReply(text="It is a topic of its own."))

    result = product.run("signal", "handling", "is", "broken", "-p")

    assert result.exit_code == 0, result.stderr
    assert "a topic of its own" in result.stdout


def test_invalid_arguments_are_reported(product: Product) -> None:
    product.will(ModelReply(text="Fine."))
    assert product.run("-p", "--session", "mine", "hello").exit_code == 0

    unknown = product.run("signal", "yours", "answer", "{}")
    assert (unknown.exit_code, "no session 'yours'" in unknown.stderr) == (1, True)
    broken = product.run("signal", "mine", "answer", "{effect")
    assert (broken.exit_code, "not JSON" in broken.stderr) == (2, True)
    deep = product.run("signal", "mine", "go", "[" * 50_000)
    assert (deep.exit_code, "not JSON" in deep.stderr) == (2, True)
    odd = product.run("signal", "mine", "../x", "{}")
    assert (odd.exit_code, "isn't a valid name" in odd.stderr) == (2, True)


def test_answer_that_no_call_waits_for_is_refused(product: Product) -> None:
    product.will(ModelReply(text="Fine."))
    assert product.run("-p", "--session", "mine", "hello").exit_code == 0

    for payload in ("{}", '{"call_id": "c", "effect": "alow"}', "3"):
        none = product.run("signal", "mine", "answer", payload)
        assert (none.exit_code, "this is not an answer" in none.stderr) == (2, True)
    late = product.run("signal", "mine", "answer", '{"call_id": "c", "effect": "allow"}')
    assert (late.exit_code, "No call 'c' waits" in late.stderr) == (1, True)
    assert not list(product.state_dir.glob("sessions/*/mine/signals/*"))


def test_waiting_calls_are_listed_and_sent_signal_is_stored(product: Product) -> None:
    product.will(ModelReply(text="Fine."))
    assert product.run("-p", "--session", "mine", "hello").exit_code == 0

    assert product.run("signal", "mine").stdout == "Nothing waits for an answer.\n"
    sent = product.run("signal", "mine", "go", '{"n": 1}')

    assert (sent.exit_code, sent.stdout) == (0, "Sent go to mine.\n")
    [left] = product.state_dir.glob("sessions/*/mine/signals/*-go.json")
    assert left.read_text() == '{"n": 1}'
    assert {at.stat().st_mode & 0o077 for at in (left, *left.parents[:2])} == {0}
