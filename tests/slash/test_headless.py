"""Commands that tell something, as the prompt of `dirge -p`."""

from tests.frontend.print.product import Product, product
from tests.providers.server import Say

__all__ = ["product"]


def test_the_cost_of_a_session_is_told_without_asking_a_model(product: Product) -> None:
    product.will(Say(text="Hello."))
    product.run("-p", "--session", "s", "hi")

    told = product.run("-p", "--session", "s", "/cost")

    assert told.exit_code == 0
    assert "requests" in told.stdout
    assert "Requests while idle: 0" in told.stdout
    assert len(product.service.requests) == 1


def test_what_stands_is_told_and_what_needs_a_screen_is_refused(product: Product) -> None:
    status = product.run("-p", "/status")
    assert status.exit_code == 0
    assert str(product.project) in status.stdout

    for line in ("/cd ..", "/config", "/add-dir .."):
        refused = product.run("-p", line)
        assert refused.exit_code == 2
        assert line.split()[0] in refused.stderr
