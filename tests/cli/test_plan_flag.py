"""`--plan` in a terminal."""

from tests.support.product import Product


def test_plan_flag_starts_line_mode_with_plan(product: Product) -> None:
    product.configure("[plan]\nenabled = false\n")

    result = product.run_forked("--line", "--plan", "make", "it", stdin="/quit\n")

    assert result.exit_code == 0
    assert "[plan] enabled" in result.stdout
    assert product.service.requests == []
