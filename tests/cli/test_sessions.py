"""`dirge sessions`: listing, searching, exporting, repairing, deleting."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.cli.sessions import sessions_fits
from dirge_py.session.ids import short_names
from dirge_py.session.recorder import Recorder
from dirge_py.session.store import Store
from dirge_py.types.events import MessageEnd
from dirge_py.types.messages import user_text
from tests.security.sizes import size
from tests.session.import_export.samples import CLAUDE, CLAUDE_ID, CODEX, lines
from tests.support.fake_service import ModelReply
from tests.support.product import Product
from tests.support.requirements import as_nobody
from tests.support.stored_sessions import exchange, record
from tests.support.terminal import Terminal


class Moving:
    def __init__(self) -> None:
        self.now = 1_795_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def stored(product: Product) -> Store:
    store = Store(product.state_dir, product.project, app_version="1", clock=Moving())
    record(store, "20261120-aaaa11", exchange("fix the alpha parser", "It was the beta."))
    record(store, "20261120-aaab22", exchange("say hello", "Hello \x1b[31mred\x1b[0m."))
    return store


def good(product: Product, *words: str, **options: Any) -> str:
    result = product.run("sessions", *words, **options)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def refused(product: Product, *words: str) -> tuple[int, str]:
    result = product.run("sessions", *words)
    return result.exit_code, result.stderr


def test_sessions_followed_by_other_words_is_a_prompt() -> None:
    own = [[], ["list"], ["--all"], ["show", "x"], ["search", "two", "words"], ["import", "f"]]
    prompts = [["are", "lost"], ["Show", "x"], ["lists"], ["in", "my", "app", "--all"]]

    assert all(map(sessions_fits, own))
    assert not any(map(sessions_fits, prompts))


def test_list_shows_shortest_unique_ids(product: Product, stored: Store) -> None:
    heads, *rows = [re.split(r"  +", line) for line in good(product).splitlines()]

    assert heads == ["id", "last used", "messages", "cost", "model", "title"]
    assert [(row[0], row[2:]) for row in rows] == [
        ("aaab", ["2", "$0.01", "work/m", "say hello"]),
        ("aaaa", ["2", "$0.01", "work/m", "fix the alpha parser"]),
    ]
    assert [stored.find(row[0]) for row in rows] == ["20261120-aaab22", "20261120-aaaa11"]
    assert good(product, "list") == good(product)


def test_list_as_json_has_more_fields(product: Product, stored: Store) -> None:
    (newest,) = json.loads(good(product, "--json", "-n", "1"))["sessions"]

    assert newest["id"] == "20261120-aaab22"
    assert newest["usage"] == {"input": 100, "output": 20, "cache_read": 40, "cache_write": 0}
    assert (newest["cost_usd"], newest["cwd"]) == (0.01, str(product.project))


def test_all_flag_includes_other_projects(product: Product, stored: Store, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Store(product.state_dir, tmp_path / "other", clock=Moving())
    record(other, "theirs", exchange("the alpha of others", "No."))

    assert "others" not in good(product)
    assert "others" in good(product, "--all")
    assert other.folder.name in good(product, "list", "--all")
    assert "others" in good(product, "-C", str(tmp_path / "other"))
    assert "No message in this project" in refused(product, "search", "others")[1]
    assert "theirs" in good(product, "search", "--all", "others")


def test_empty_list_says_so(product: Product) -> None:
    assert good(product) == "There are no stored sessions of this project.\n"
    assert good(product, "--all", "--json") == '{"sessions": []}\n'


def test_ids_of_any_length_are_listed_with_unique_names(product: Product) -> None:
    store = Store(product.state_dir, product.project, clock=Moving())
    for name in ("a", "ab", "a-b", "20261120-", "x" * 128):
        record(store, name, exchange("hi", "Hi."))

    shown = [line.split()[0] for line in good(product).splitlines()[1:]]

    assert {store.find(name) for name in shown} == {"a", "ab", "a-b", "20261120-", "x" * 128}


IDS = st.from_regex(r"(2026112[01]-)?[ab]{1,6}|[ab.-]{1,9}", fullmatch=True).filter(
    lambda name: name not in (".", "..")
)


@settings(max_examples=size(25, 2000), deadline=None)
@given(st.sets(IDS, min_size=1, max_size=12))
def test_short_name_finds_its_session(tmp_path_factory: Any, ids: set[str]) -> None:
    store = Store(tmp_path_factory.mktemp("state"), Path("/"))
    store.folder.mkdir(parents=True)
    for name in ids:
        (store.folder / f"{name}.jsonl").touch()

    assert {name: store.find(short) for name, short in short_names(ids).items()} == {
        name: name for name in ids
    }


def test_show_prints_prompts_and_branches(product: Product, stored: Store) -> None:
    recorder = Recorder(stored.open("aaaa"), clock=stored._clock)
    first = next(r for r in recorder.records() if r.type == "run_start")
    recorder.load()
    recorder.go_on_from(first.id)
    recorder.sink(MessageEnd(user_text("another way")))
    recorder.close()

    text = good(product, "show", "aaaa")
    data = json.loads(good(product, "show", "--json", "aaaa"))

    for words in ("title         fix the alpha parser", "tokens        100 in, 20 out", "$0.01"):
        assert words in text
    assert "Branches" in text
    assert [prompt["text"] for prompt in data["prompts"]] == ["another way"]
    assert [branch["last_prompt"] for branch in data["branches"]] == [
        "fix the alpha parser",
        "another way",
    ]


def test_search_prints_matches_with_session(product: Product, stored: Store) -> None:
    text = good(product, "search", "BETA")
    (found,) = json.loads(good(product, "search", "--json", "beta"))["found"]

    assert text.splitlines()[0] == "20261120-aaaa11  fix the alpha parser"
    assert text.splitlines()[1].endswith("answer  It was the beta.")
    assert found["snippet"][slice(*found["matches"][0])] == "beta"
    assert refused(product, "search", "gamma")[0] == 1
    assert refused(product, "search")[0] == 2
    assert refused(product, "search", "--", "--")[0] == 2


@pytest.mark.parametrize("form", ["md", "html", "json"])
def test_export_goes_to_stdout_or_file(product: Product, stored: Store, form: str) -> None:
    text = good(product, "export", "aaab", "--format", form)
    assert good(product, "export", "aaab", "--format", form, "-o", "out.txt") == ""

    assert (product.project / "out.txt").read_text() == text
    assert "say hello" in text
    assert "\x1b" not in text


def test_deleted_session_can_be_restored(product: Product, stored: Store) -> None:
    before = {path: path.read_bytes() for path in product.journals}

    assert "--undo 20261120-aaaa11" in good(product, "delete", "--yes", "aaaa")
    assert "aaaa" not in good(product)
    assert refused(product, "search", "beta")[0] == 1
    assert "restored;" in good(product, "delete", "--undo", "aaaa")

    assert {path: path.read_bytes() for path in product.journals} == before
    assert "beta" in good(product, "search", "beta")


def test_delete_without_terminal_needs_yes_flag(product: Product, stored: Store) -> None:
    exit_code, words = refused(product, "delete", "aaaa")

    assert (exit_code, len(product.journals)) == (2, 2)
    assert "--yes" in words


def test_delete_in_terminal_asks_first(product: Product, stored: Store) -> None:
    words = ["-m", "dirge_py", "sessions", "delete", "aaaa"]
    for answer, left in (("n", 2), ("y", 1)):
        terminal = Terminal(words, cwd=product.project, **product.environment)
        terminal.read_until("[y/N]")
        terminal.press(f"{answer}\n")

        assert terminal.finish() == left - 1
        assert len(product.journals) == left
        assert b"fix the alpha parser" in terminal.output


def test_session_in_use_is_not_deleted_but_others_are(product: Product, stored: Store) -> None:
    journal = stored.open("aaaa")
    try:
        exit_code, words = refused(product, "delete", "--yes", "aaaa", "aaab")
    finally:
        journal.close()

    assert exit_code == 1
    assert f"in use by process {os.getpid()}" in words
    assert [path.name for path in product.journals] == ["20261120-aaaa11.jsonl"]


def test_repair_reports_damage_and_keeps_readable_records(product: Product, stored: Store) -> None:
    path = stored.folder / "20261120-aaaa11.jsonl"
    whole = path.read_bytes().splitlines(keepends=True)
    middle = b"\0" * 40 + b"\n"
    path.write_bytes(b"".join([*whole[:3], middle, *whole[3:], b'{"v":1,"seq":99,"ts":']))

    text = good(product, "repair", "aaaa")
    again = good(product, "repair", "aaaa")

    assert f"{len(whole)} records can be read" in text
    assert "an unfinished end of 21 bytes was cut off" in text
    assert "40 bytes in the middle are not records" in text
    assert "The index was rebuilt: 2 sessions" in text
    assert "unfinished" not in again
    assert path.read_bytes() == b"".join([*whole[:3], middle, *whole[3:]])
    assert (stored.folder / "20261120-aaaa11.damaged").exists()
    assert "intact" in good(product, "repair", "aaab")
    assert good(product, "repair", "--all").count("records") == 3


def damage(path: Path, kind: str) -> None:
    """Damage a session as a power cut or a broken disk does."""
    whole = path.read_bytes().splitlines(keepends=True)
    match kind:
        case "middle":
            path.write_bytes(b"".join([*whole[:3], b"\0" * 40 + b"\n", *whole[3:]]))
        case "end":
            path.write_bytes(b"".join([*whole, b"\0" * 40]))
        case "part":
            further = path.with_suffix("") / "0003.jsonl"
            further.parent.mkdir(exist_ok=True)
            further.write_bytes(whole.pop())
            path.write_bytes(b"".join(whole))


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("middle", "40 bytes cannot be read; `dirge sessions repair 20261120-aaaa11` keeps them"),
        ("end", "40 bytes cannot be read; `dirge sessions repair 20261120-aaaa11` keeps them"),
        ("part", "0002.jsonl' is missing"),
    ],
)
def test_session_with_lost_data_is_marked_with_reason(
    product: Product, stored: Store, kind: str, words: str
) -> None:
    assert "damaged" not in good(product, "list")
    assert "damaged" not in good(product, "show", "aaaa")

    damage(stored.folder / "20261120-aaaa11.jsonl", kind)

    marked, sound = (
        next(line for line in good(product, "list").splitlines() if line.startswith(name))
        for name in ("aaaa", "aaab")
    )
    assert "  damaged: fix the alpha parser" in marked
    assert "damaged" not in sound
    rows = json.loads(good(product, "list", "--json"))["sessions"]
    assert {row["id"]: row["is_damaged"] for row in rows} == {
        "20261120-aaaa11": True,
        "20261120-aaab22": False,
    }
    assert words in good(product, "show", "aaaa")
    shown = json.loads(good(product, "show", "aaaa", "--json"))
    assert (shown["is_damaged"], words in shown["damage"]) == (True, True)
    shown = json.loads(good(product, "show", "aaab", "--json"))
    assert (shown["is_damaged"], shown["damage"]) == (False, None)


def test_session_stays_marked_damaged_after_repair(product: Product, stored: Store) -> None:
    damage(stored.folder / "20261120-aaaa11.jsonl", "end")
    good(product, "repair", "aaaa")

    assert "  damaged: fix the alpha parser" in good(product, "list")
    assert "damaged bytes are kept in" in good(product, "show", "aaaa")


def test_repair_skips_session_in_use(product: Product, stored: Store) -> None:
    journal = stored.open("aaaa")
    try:
        result = product.run("sessions", "repair", "--all")
    finally:
        journal.close()

    assert result.exit_code == 1
    assert "20261120-aaaa11  not repaired: Session 20261120-aaaa11 is in use" in result.stdout
    assert "20261120-aaab22  intact" in result.stdout


def test_imported_session_belongs_to_its_project(product: Product, tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    shop.mkdir()
    text = lines(CLAUDE).replace("/home/me/shop", str(shop))
    product.file(f"{CLAUDE_ID}.jsonl", text)

    imported = good(product, "import", f"{CLAUDE_ID}.jsonl")
    again = good(product, "import", "--from", "claude", f"{CLAUDE_ID}.jsonl")

    session_id = imported.split()[0]
    assert f"`dirge -C {shop} -r {session_id}`" in imported
    assert "left out: 1 messages of sub-agents" in imported
    assert "was already imported" in again
    assert session_id.split("-")[1][:4] in good(product, "-C", str(shop))
    assert "imported from claude " in " ".join(
        good(product, "show", "-C", str(shop), session_id).split()
    )
    assert good(product) == "There are no stored sessions of this project.\n"


def test_imported_session_can_be_continued(product: Product) -> None:
    product.file("rollout.jsonl", lines(CODEX))
    session_id = good(product, "import", "rollout.jsonl").split()[0]
    product.will(ModelReply(text="There is b.txt, too."))

    result = product.run("-p", "-r", session_id, "look again")

    assert (result.exit_code, result.stdout) == (0, "There is b.txt, too.\n")
    roles = [message["role"] for message in product.sent() if message["role"] != "system"]
    assert roles == ["user", "assistant", "tool", "assistant", "tool", "assistant", "user"]
    assert "b.txt" in good(product, "search", "too")


def test_import_skips_invalid_files(product: Product) -> None:
    product.file("good.jsonl", lines(CLAUDE))
    product.file("bad.jsonl", "nothing")

    result = product.run("sessions", "import", "bad.jsonl", "good.jsonl", "absent.jsonl")

    assert result.exit_code == 1
    assert "'bad.jsonl' contains no session" in result.stderr
    assert "'absent.jsonl' cannot be read" in result.stderr
    assert len(product.journals) == 1


@pytest.mark.parametrize(
    ("words", "exit_code", "expected"),
    [
        (["show", "zzz"], 1, "no session 'zzz'"),
        (["show", "aaa"], 1, "matches 2 sessions"),
        (["show", "../../x"], 1, "is not a valid session id"),
        (["show"], 2, "takes one id"),
        (["show", "a", "b"], 2, "takes one id"),
        (["export", "aaaa", "--format", "pdf"], 2, "invalid choice"),
        (["export", "aaaa", "-o", "no/such/folder/f"], 1, "No such file"),
        (["list", "everything"], 2, "takes no arguments"),
        (["list", "-n", "0"], 2, "not a whole number"),
        (["list", "--al"], 2, "no flag `--al`"),
        (["repair"], 2, "repair needs a session"),
        (["delete"], 2, "delete needs a session"),
        (["delete", "--yes", "zzz"], 1, "no session 'zzz'"),
        (["delete", "--undo", "zzz"], 1, "No deleted session"),
        (["import"], 2, "import needs files"),
        (["list", "-C", "nowhere"], 2, "no such folder"),
    ],
)
def test_invalid_arguments_are_reported(
    product: Product, stored: Store, words: list[str], exit_code: int, expected: str
) -> None:
    code, message = refused(product, *words)

    assert code == exit_code
    assert expected.lower() in message.lower()


def test_sessions_are_listed_despite_invalid_settings(product: Product, stored: Store) -> None:
    (product.config_dir / "config.toml").write_text("no such = [toml")

    assert "say hello" in good(product)


def test_control_characters_in_titles_are_stripped(product: Product) -> None:
    store = Store(product.state_dir, product.project, clock=Moving())
    record(store, "evil", exchange("\x1b]0;owned\x07hi \u202e\x9b31mthere", "Yes \x1b[2J there."))

    for words in ([], ["show", "evil"], ["search", "there"], ["export", "evil"]):
        text = good(product, *words)
        assert not set(text) & set("\x1b\x07\x9b\u202e")


@pytest.fixture
def stranger(open_tmp_path: Path, product: Product) -> list[str]:
    """A command prefix that runs the command as user nobody, who can read but not write here."""
    return as_nobody()


def test_list_works_without_write_access(
    product: Product, stored: Store, stranger: list[str]
) -> None:
    listed = good(product)
    for path in product.state_dir.glob("index*"):
        path.unlink()
    for path in (product.state_dir, *product.state_dir.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)

    result = product.run_apart("sessions", prefix=stranger)
    found = product.run_apart("sessions", "search", "beta", prefix=stranger)

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.split() == listed.replace("$0.01", "-").split()
    assert "It was the beta." in found.stdout
    assert list(product.state_dir.glob("index*")) == []
