"""Environment variables with secrets never reach a process of the program."""

import json
import os
from pathlib import Path

import pytest

from tests.security.sizes import count
from tests.support.fake_service import ModelReply
from tests.support.product import Product, product
from tests.support.requirements import as_nobody

__all__ = ["product"]

CANARIES = (
    "AWS_SECRET_ACCESS_KEY",
    "BASH_ENV",
    "DATABASE_URL",
    "ENV",
    "GIT_SSH_COMMAND",
    "LC_SECRET",
    "LD_LIBRARY_PATH",
    "NODE_OPTIONS",
    "PATH_TOKEN",
    "lower_case",
)
LOOKS = (
    "env",
    "cat /proc/self/environ",
    "python3 -c 'import os; print(os.environ)'",
    "bash -lc env; sh -c env",
    "git -c alias.e='!env' e",
    "env -i /bin/bash -c 'cat /proc/$$/environ'",
)


def canary(name: str) -> str:
    return f"canary-{name.lower()}-7f3a"


def written(product: Product) -> str:
    files = [path for path in product.state_dir.rglob("*") if path.is_file()]
    assert files
    return "\n".join(path.read_bytes().decode("utf-8", "replace") for path in files)


def test_secrets_of_the_environment_reach_no_child_transcript_or_log(product: Product) -> None:
    product.configure(f"[tools]\nenvironment = {json.dumps([*CANARIES[1:2], 'LISTED'])}\n")
    calls = [("bash", {"command": f"{look}; echo listed=$LISTED"}) for look in LOOKS]
    product.will(ModelReply(calls=calls), ModelReply(text="done"))
    environment = {name: canary(name) for name in CANARIES} | {"LISTED": "may-be-seen"}

    result = product.run_apart(
        "-p", "-v", "--yolo", "--output-format=stream-json", "x", env=environment
    )

    assert result.exit_code == 0
    text = product.sent_text()
    assert text.count("HOME=") >= 4
    everything = "\n".join([text, result.stdout, result.stderr, written(product)])
    seen = [name for name in CANARIES if canary(name) in everything]
    count("environment canaries", len(CANARIES) * len(LOOKS), len(seen), "seen")
    assert seen == []


@pytest.mark.parametrize("name", ["CARGO_HOME", "GIT_AUTHOR_NAME"])
def test_listed_variables_are_passed_to_commands(product: Product, name: str) -> None:
    product.configure(f'[tools]\nenvironment = ["{name}"]\n')
    product.will(
        ModelReply(calls=[("bash", {"command": f"echo got ${name}"})]), ModelReply(text="done")
    )

    product.run("-p", "--yolo", "x", env={name: "the value"})

    assert "got the value" in product.sent_text()


def test_api_key_of_a_service_is_not_passed_even_if_listed(product: Product) -> None:
    product.configure('[tools]\nenvironment = ["FAKE_KEY"]\n')
    product.will(ModelReply(calls=[("bash", {"command": "env"})]), ModelReply(text="done"))

    product.run("-p", "--yolo", "x")

    assert "HOME=" in product.sent_text()
    assert "FAKE_KEY" not in product.sent_text()


def test_a_command_cannot_read_the_environment_of_the_program_itself(
    open_tmp_path: Path, product: Product
) -> None:
    product.will(ModelReply(calls=[("bash", {"command": "cat /proc/$PPID/environ; id -u"})]))
    product.will(ModelReply(text="done"))

    prefix = as_nobody()
    for folder in (product.base, *product.base.rglob("*")):
        os.chown(folder, 65534, 65534)

    product.run_apart("-p", "--yolo", "x", env={"CANARY": canary("x")}, prefix=prefix)

    assert "65534" in product.sent_text()
    assert canary("x") not in product.sent_text()
