"""The key reaches the service, and nothing else."""

import json

import pytest

from tests.support.fake_service import ModelReply, RawReply
from tests.support.product import KEY, Product, Wire


def everything_written(product: Product) -> str:
    files = [path for path in product.state_dir.rglob("*") if path.is_file()]
    assert files
    return "\n".join(path.read_bytes().decode("utf-8", "replace") for path in files)


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_api_key_is_in_no_output_or_file(product: Product, wire: Wire) -> None:
    product.configure(wire=wire)
    product.file("leak.txt", f"the key is {KEY}, or {KEY[:8]}\n")
    product.will(
        ModelReply(
            calls=[("read", {"path": "leak.txt"}), ("bash", {"command": f"env; echo {KEY}"})]
        ),
        ModelReply(text=f"I saw {KEY}!"),
    )

    result = product.run(
        *("-p", "-v", "--yolo", "--output-format", "stream-json", f"my key is {KEY}")
    )

    assert result.exit_code == 0
    assert KEY not in result.stderr
    assert KEY not in everything_written(product)
    results = json.dumps(product.service.requests[1].json)
    assert "the key is" in results
    assert KEY not in results.split("the key is")[1]


def test_api_key_is_in_no_error_message(product: Product) -> None:
    body = json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}"}})
    product.will(RawReply(status=401, body=body, headers={"content-type": "application/json"}))

    result = product.run("-p", "-v", "--output-format", "stream-json", "x")

    assert result.exit_code == 1
    assert KEY not in result.stdout + result.stderr
    assert KEY not in everything_written(product)


def test_invalid_api_key_is_not_printed(product: Product) -> None:
    result = product.run("-p", "x", env={"FAKE_KEY": f"{KEY}\u2014x"})

    assert result.exit_code != 0
    assert KEY not in result.stdout + result.stderr


def test_key_file_is_used_and_cannot_be_read_by_agent(product: Product) -> None:
    file = product.base / "key"
    file.write_text("sk-from-a-file\n")
    file.chmod(0o600)
    product.will(ModelReply(calls=[("read", {"path": str(file)})]), ModelReply(text="ok"))

    result = product.ask("--yolo", "--api-key-file", str(file), "x")

    assert product.service.requests[0].headers["authorization"] == "Bearer sk-from-a-file"
    assert len(result.json["permission_denials"]) == 1


def test_api_key_flag_is_refused_without_printing_key(product: Product) -> None:
    result = product.run("-p", "--api-key", "sk-visible", "x")

    assert result.exit_code == 2
    assert "sk-visible" not in result.stderr
    assert "--api-key-file" in result.stderr


def test_state_files_are_private(product: Product) -> None:
    product.will(ModelReply(text="ok"))
    product.run("-p", "-v", "x")

    kinds = {path.stat().st_mode & 0o077 for path in product.state_dir.rglob("*")}

    assert kinds == {0}
    assert product.state_dir.stat().st_mode & 0o077 == 0


OTHERS = {
    "ANTHROPIC_API_KEY": "sk-other-0a9b8c7d6e5f4a3b",
    "TAVILY_API_KEY": "tvly-1f2e3d4c5b6a7988",
    "DEPLOY_TOKEN": "7d6c5b4a39281706f5e4d3c2b1a0",
    "HEADER_VALUE": "proxy-9z8y7x6w5v4u3t2s",
}


def test_keys_of_other_services_are_redacted_everywhere(product: Product) -> None:
    product.configure("[providers.fake.headers]\nx-proxy = '${HEADER_VALUE}'\n")
    product.file("environ", "\n".join(f"{name}={value}" for name, value in OTHERS.items()))
    product.will(ModelReply(calls=[("bash", {"command": "cat environ"})]), ModelReply(text="ok"))

    process = product.run(
        *("-p", "--yolo", "--output-format", "stream-json", "--record", "tape", "look"), env=OTHERS
    )

    assert process.exit_code == 0
    result = json.dumps(product.service.requests[1].json)
    assert "DEPLOY_TOKEN=[redacted]" in result
    tape = (product.project / "tape").read_text()
    assert "DEPLOY_TOKEN" in tape
    for value in OTHERS.values():
        assert value not in result + process.stdout + process.stderr + tape + everything_written(
            product
        )


def test_ordinary_word_in_key_variable_is_not_redacted(product: Product) -> None:
    product.will(
        ModelReply(calls=[("bash", {"command": "echo a development server"})]),
        ModelReply(text="ok"),
    )

    product.run("-p", "--yolo", "x", env={"ANTHROPIC_API_KEY": "development"})

    assert "a development server" in json.dumps(product.service.requests[1].json)
