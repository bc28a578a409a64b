"""`dirge trust`: showing, accepting exactly what was shown, forgetting."""

import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dirge_py.cli.arguments import takes_only_flags
from tests.support.fake_service import ModelReply
from tests.support.product import Product
from tests.support.terminal import Terminal

PLUGIN = "def register(dirge): pass\n"


@pytest.fixture
def acting(product: Product) -> Product:
    product.file(".dirge/plugins/lint.py", PLUGIN)
    product.file(".dirge/prompts/plan.md", "Plan first.")
    product.file(".dirge/notes.txt", "nothing that acts")
    return product


def show_trust(product: Product, **options: Any) -> Any:
    result = product.run("trust", "--show", "--json", **options)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.json


def accept(product: Product) -> None:
    assert product.run("trust", "--accept", show_trust(product)["digest"]).exit_code == 0


def states(product: Product) -> dict[str, str]:
    return {Path(file["path"]).name: file["state"] for file in show_trust(product)["files"]}


def test_show_lists_acting_files_with_kind_size_and_hash(acting: Product) -> None:
    report = show_trust(acting)
    listed = [(file["path"], file["kind"], file["size"], file["state"]) for file in report["files"]]
    assert listed == [
        (".dirge/plugins/lint.py", "plugin", len(PLUGIN), "new"),
        (".dirge/prompts/plan.md", "prompt", 11, "new"),
    ]
    assert (report["project"], report["state"]) == (str(acting.project), "restricted")
    text = acting.run("trust", "--show").stdout
    for word in (report["digest"], *(file["sha256"] for file in report["files"])):
        assert word in text
    assert not (acting.state_dir / "trust.json").exists()


def test_accept_trusts_only_the_shown_digest(acting: Product) -> None:
    digest = show_trust(acting)["digest"]
    acting.file(".dirge/plugins/lint.py", PLUGIN + "# more\n")
    late = acting.run("trust", "--accept", digest)
    assert (late.exit_code, show_trust(acting)["state"]) == (1, "restricted")
    assert show_trust(acting)["digest"] in late.stderr

    done = acting.run("trust", "--accept", show_trust(acting)["digest"])
    assert (done.exit_code, done.stderr, show_trust(acting)["state"]) == (0, "", "trusted")
    assert show_trust(acting, cwd=acting.file("src/deep/x").parent)["state"] == "trusted"


def test_changed_and_new_files_need_trust_again(acting: Product) -> None:
    accept(acting)
    acting.file(".dirge/plugins/lint.py", "changed")
    acting.file(".dirge/plugins/more.py", "new")
    assert states(acting) == {"lint.py": "changed", "more.py": "new", "plan.md": "trusted"}

    (acting.project / ".dirge/plugins/lint.py").unlink()
    (acting.project / ".dirge/plugins/more.py").unlink()
    assert (states(acting), show_trust(acting)["state"]) == ({"plan.md": "trusted"}, "trusted")


def test_trust_can_be_forgotten(acting: Product) -> None:
    accept(acting)
    assert acting.run("trust", "--forget").exit_code == 0
    assert (show_trust(acting)["state"], set(states(acting).values())) == ("restricted", {"new"})


def test_copy_at_path_of_trusted_project_is_not_trusted(acting: Product) -> None:
    accept(acting)
    away = acting.project.with_name("away")
    acting.project.rename(away)
    subprocess.run(["cp", "-r", str(away), str(acting.project)], check=True)
    assert show_trust(acting)["state"] == "restricted"


def test_trust_record_is_private_and_damaged_record_trusts_nothing(acting: Product) -> None:
    accept(acting)
    file = acting.state_dir / "trust.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600

    file.write_text("{ torn", encoding="utf-8")
    report = show_trust(acting)
    assert report["state"] == "restricted"
    assert "trust.json is damaged" in report["obstacle"]
    refused = acting.run("trust", "--accept", report["digest"])
    assert (refused.exit_code, file.read_text(encoding="utf-8")) == (1, "{ torn")
    assert acting.run("trust", "--forget").exit_code == 1
    result = acting.will(ModelReply(text="hello")).run("-p", "x")
    assert (result.exit_code, "trust.json is damaged" in result.stderr) == (0, True)


def test_project_settings_that_are_not_allowed_are_refused(acting: Product) -> None:
    acting.file(".dirge/config.toml", '[providers.x]\ntype = "openai"\n')
    refused = acting.run("trust", "--accept", show_trust(acting)["digest"])
    assert refused.exit_code == 2
    assert "config.toml:1: a project may not set `providers`" in refused.stderr
    assert show_trust(acting)["state"] == "restricted"


def test_trusted_settings_that_became_invalid_end_start(
    acting: Product,
) -> None:
    acting.file(".dirge/config.toml", "[ui]\n")
    accept(acting)
    content = "[loop]\n"
    acting.file(".dirge/config.toml", content)
    digest = show_trust(acting)["digest"]
    file = acting.state_dir / "trust.json"
    now = {each["path"]: each["sha256"] for each in show_trust(acting)["files"]}
    table = json.loads(file.read_text(encoding="utf-8"))
    table["projects"][str(acting.project)]["accepted"] = now
    file.write_text(json.dumps(table), encoding="utf-8")
    assert (show_trust(acting)["state"], show_trust(acting)["digest"]) == ("trusted", digest)

    result = acting.run("-p", "x")
    assert (result.exit_code, acting.service.requests) == (2, [])
    assert "config.toml:1: a project may not set `loop`" in result.stderr


def test_links_and_special_files_are_refused_and_never_read(acting: Product) -> None:
    outside = acting.base / "outside.py"
    outside.write_text(PLUGIN, encoding="utf-8")
    folder = acting.project / ".dirge"
    (folder / "plugins/linked.py").symlink_to(outside)
    (folder / "skills").symlink_to(acting.base)
    os.mkfifo(folder / "prompts/pipe.md")
    acting.file(".dirge/plugins/huge.py", b"#" * (1024 * 1024 + 1))

    report = show_trust(acting)
    assert {each["path"]: each["reason"] for each in report["refused"]} == {
        ".dirge/plugins/huge.py": "it is larger than 1 MiB",
        ".dirge/plugins/linked.py": "it is a link",
        ".dirge/prompts/pipe.md": "it is not a regular file",
        ".dirge/skills": "it is a link",
    }
    assert set(states(acting)) == {"lint.py", "plan.md"}
    accept(acting)
    assert show_trust(acting)["state"] == "trusted"


def test_dirge_folder_that_is_a_link_is_never_read(product: Product) -> None:
    other = product.base / "other"
    (other / "plugins").mkdir(parents=True)
    (other / "plugins/x.py").write_text(PLUGIN, encoding="utf-8")
    (product.project / ".dirge").symlink_to(other)
    report = show_trust(product)
    assert (report["files"], report["refused"]) == (
        [],
        [{"path": ".dirge", "reason": "it is a link"}],
    )


def test_project_with_too_many_files_cannot_be_trusted(product: Product) -> None:
    for number in range(257):
        product.file(f".dirge/skills/s{number}", "x")
    report = show_trust(product)
    assert (report["files"], report["obstacle"]) == (
        [],
        ".dirge contains more than 256 files to load",
    )
    assert product.run("trust", "--accept", report["digest"]).exit_code == 1


def test_home_folder_is_never_a_project(product: Product) -> None:
    (product.home / ".git").mkdir()
    for folder in (product.home, product.home / "work"):
        (folder / ".dirge/plugins").mkdir(parents=True)
        (folder / ".dirge/plugins/x.py").write_text(PLUGIN, encoding="utf-8")

    at_home = show_trust(product, cwd=product.home)
    assert at_home["obstacle"] == "your home folder is not a project"
    assert product.run("trust", "--accept", at_home["digest"], cwd=product.home).exit_code == 1
    below = show_trust(product, cwd=product.home / "work")
    assert (below["project"], below["obstacle"]) == (str(product.home / "work"), "")


def test_project_without_acting_files_needs_no_trust(product: Product) -> None:
    product.file("AGENTS.md", "Reference text needs no trust.")
    product.file(".dirge/notes.txt", "x")
    report = show_trust(product)
    assert (report["state"], report["files"]) == ("none", [])
    result = product.run("trust", "--accept", report["digest"])
    assert (result.exit_code, result.stderr) == (1, "dirge: this project has nothing to trust.\n")
    started = product.will(ModelReply(text="hello")).run("-p", "x")
    assert (started.exit_code, started.stderr) == (0, "")


def test_control_characters_in_file_names_are_shown_escaped(product: Product) -> None:
    product.file(".dirge/plugins/\x1b]0;x\x07\u202e.py", PLUGIN)
    text = product.run("trust", "--show").stdout
    assert "<U+001B>]0;x<U+0007><U+202E>.py" in text


def test_trust_followed_by_words_is_a_prompt(product: Product) -> None:
    assert not takes_only_flags(["the", "tests"])
    result = product.will(ModelReply(text="I do.")).run("exec", "trust the tests")
    assert (result.exit_code, result.stdout) == (0, "I do.\n")
    asked = product.run("trust")
    assert (asked.exit_code, "`dirge trust --accept HASH`" in asked.stderr) == (2, True)


@pytest.mark.parametrize(
    ("key", "state"), [("y", "trusted"), ("n", "restricted"), ("", "restricted")]
)
def test_trust_in_terminal_asks(acting: Product, key: str, state: str) -> None:
    terminal = Terminal(["-m", "dirge_py", "trust"], cwd=acting.project, **acting.environment)
    terminal.read_until("[y/N]")
    terminal.press(f"{key}\n")
    code = terminal.finish()
    assert (code, show_trust(acting)["state"]) == (0 if key == "y" else 1, state)
