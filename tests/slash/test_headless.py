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
