"""Commands that print something, as the prompt of `dirge -p`."""

from tests.support.fake_service import ModelReply
from tests.support.product import Product, product

__all__ = ["product"]


def test_cost_is_printed_without_calling_model(product: Product) -> None:
    product.will(ModelReply(text="Hello."))
    product.run("-p", "--session", "s", "hi")

    result = product.run("-p", "--session", "s", "/cost")

    assert result.exit_code == 0
    assert "requests" in result.stdout
    assert "Requests while idle: 0" in result.stdout
    assert len(product.service.requests) == 1


def test_status_is_printed_and_commands_that_need_a_screen_are_refused(product: Product) -> None:
    status = product.run("-p", "/status")
    assert status.exit_code == 0
    assert str(product.project) in status.stdout

    for line in ("/cd ..", "/config", "/add-dir .."):
        refused = product.run("-p", line)
        assert refused.exit_code == 2
        assert line.split()[0] in refused.stderr


def test_unknown_command_in_print_mode_is_refused_with_nearest_one(product: Product) -> None:
    for line, meant in (("/cmpact", "/compact"), ("/costt now", "/cost")):
        refused = product.run("-p", line)
        assert refused.exit_code == 2
        assert f"There is no command {line.split()[0]} in `dirge -p`." in refused.stderr
        assert f"Did you mean {meant}?" in refused.stderr
    assert product.run("-p", "/copy").exit_code == 2
    assert product.service.requests == []


def test_help_in_print_mode_lists_what_print_mode_can_run(product: Product) -> None:
    result = product.run("-p", "/help")

    assert (result.exit_code, product.service.requests) == (0, [])
    assert "/cost" in result.stdout
    assert "/redo" not in result.stdout
    refused = product.run("-p", "/redo")
    assert "/redo needs an interactive session: start dirge without -p." in refused.stderr


def test_command_of_the_screen_in_print_mode_says_what_it_needs(product: Product) -> None:
    result = product.run("-p", "/theme light")

    assert (result.exit_code, result.stdout, product.service.requests) == (2, "", [])
    assert "/theme needs the terminal UI." in result.stderr
    assert "Did you mean" not in result.stderr


def test_paths_and_double_slashes_are_still_prompts(product: Product) -> None:
    product.will(ModelReply(text="yes"), ModelReply(text="yes"))
    assert product.run("-p", "/usr/bin/x is slow").exit_code == 0
    assert product.run("-p", "//cmpact").exit_code == 0
    assert [product.sent(number)[-1]["content"] for number in (0, 1)] == [
        "/usr/bin/x is slow",
        "/cmpact",
    ]


def test_websearch_is_listed_only_with_a_search_service(product: Product) -> None:
    assert "webfetch, write" in product.run("-p", "/status").stdout
    product.configure('[web]\nsearch = "searxng"\nsearch_url = "http://127.0.0.1:9"\n')
    assert "webfetch, websearch, write" in product.run("-p", "/status").stdout
