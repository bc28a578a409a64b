"""The log: off by default, JSON lines, in the state folder."""

import json

import pytest

from tests.support.fake_service import ModelReply
from tests.support.product import Product


def test_log_is_off_by_default(product: Product) -> None:
    product.will(ModelReply(text="pong"))

    product.run("-p", "ping")

    assert not (product.state_dir / "log").exists()


@pytest.mark.parametrize(
    ("flags", "env"), [(["-v"], {}), (["--verbose"], {}), ([], {"DIRGE_LOG": "1"})]
)
def test_log_contains_json_lines_about_run(
    product: Product, flags: list[str], env: dict[str, str]
) -> None:
    product.will(ModelReply(calls=[("list_dir", {"path": "."})]), ModelReply(text="pong"))

    result = product.run("-p", *flags, "ping", env=env)

    [file] = (product.state_dir / "log").iterdir()
    records = [json.loads(line) for line in file.read_text().split("\n") if line]
    assert result.stdout == "pong\n"
    assert str(file) in result.stderr
    assert {record["session"] for record in records} == {product.journals[0].stem}
    assert "session" in {record["kind"] for record in records}
    assert any("list_dir" in json.dumps(record) for record in records)
