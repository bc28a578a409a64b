"""Cases 104 and 105: edited code is checked before a run ends."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.guards.verification import (
    Verification,
    is_code,
    is_verification,
    track_verification,
    verification_check,
)
from dirge_py.testing import ScriptedModel
from dirge_py.types.tools import ToolCall
from tests.security.sizes import size
from tests.support.guarded_runs import bash, call, edit, nudges, patch, read, run_guarded


async def run_verified(model, *, most=1):
    verification = Verification()
    run = await run_guarded(
        model, track_verification(verification), verification_check(verification, most)
    )
    return nudges(run), len(model.seen)


def editing(path="src/main.rs"):
    return ScriptedModel().will_call("edit", path=path)


async def test_case_104_edited_code_that_nothing_checked_is_sent_back_once():
    texts, asked = await run_verified(editing().will_say("done").will_say("there are no tests"))
    assert (len(texts), asked) == (1, 3)
    assert "/w/src/main.rs" in texts[0]
    assert "nothing has built, tested or linted it since" in texts[0]


async def test_case_104_a_green_test_after_the_edit_is_enough():
    texts, _ = await run_verified(
        editing().will_call("bash", command="cargo test").will_say("done")
    )
    assert texts == []


async def test_case_104_a_failing_test_asks_for_a_fix():
    model = editing().will_call("bash", command="cargo test", exit=101)
    texts, _ = await run_verified(
        model.will_say("done").will_say("it failed before, see git stash")
    )
    assert len(texts) == 1
    assert "`cargo test`" in texts[0]
    assert "Fix what broke" in texts[0]


async def test_case_104_documents_are_no_code():
    assert await run_verified(editing("README.md").will_say("done")) == ([], 2)


async def test_case_104_red_then_green_is_enough():
    model = editing().will_call("bash", command="pytest", exit=1)
    model.will_call("edit", path="a.py").will_call("bash", command="pytest").will_say("done")
    assert (await run_verified(model))[0] == []


async def test_g7_an_edit_after_the_last_green_run_is_unverified_again():
    model = editing().will_call("bash", command="cargo test").will_call("edit", path="lib.rs")
    texts, _ = await run_verified(model.will_say("done").will_say("done"))
    assert ["since. Run the check" in text for text in texts] == [True]


async def test_an_edit_after_a_red_run_asks_for_another_run():
    model = editing().will_call("bash", command="cargo test", exit=1).will_call("edit", path="b.c")
    texts, _ = await run_verified(model.will_say("done").will_say("done"))
    assert ["`cargo test` failed before your last edit" in text for text in texts] == [True]


async def test_g6_every_file_of_an_edit_of_several_counts():
    files = ["notes.md", *[f"f{n}.py" for n in range(7)]]
    model = ScriptedModel().will_call("patch", files=files).will_say("done").will_say("done")
    (text,), _ = await run_verified(model)
    assert "/w/f0.py" in text
    assert "notes" not in text
    assert "and 2 more" in text


@pytest.mark.parametrize("output", ["Exit code: 0", "a test failed once, Exit code: 7 in prose"])
async def test_case_105_output_is_not_read(output):
    model = editing().will_call("bash", command="cargo test", output=output).will_say("done")
    assert (await run_verified(model))[0] == []


async def test_more_may_be_asked_for():
    model = editing()
    for _ in range(5):
        model.will_say("done")
    assert (len((await run_verified(model, most=3))[0]), len(model.seen)) == (3, 5)


def status(*calls):
    verification = Verification()
    for made, outcome in calls:
        verification.observe(made, outcome)
    return verification.status


EDIT = call(edit(), path="a.py")
TEST = call(bash(), command="pytest -q")


def test_the_status_is_about_the_last_check_since_the_last_edit():
    assert status() == "untouched"
    assert status((TEST, "failed_command")) == "untouched"
    assert status((TEST, "ok"), (EDIT, "ok")) == "unverified"
    assert status((EDIT, "ok"), (TEST, "ok")) == "green"
    assert status((EDIT, "ok"), (TEST, "failed_command")) == "red"
    assert status((EDIT, "ok"), (TEST, "timeout")) == "red"
    assert status((EDIT, "ok"), (TEST, "ok"), (TEST, "error")) == "red"
    assert status((EDIT, "ok"), (TEST, "failed_command"), (EDIT, "ok")) == "unverified"
    assert status((EDIT, "ok"), (TEST, "aborted")) == "unverified"
    assert status((EDIT, "ok"), (call(bash(), command="ls"), "ok")) == "unverified"
    assert status((call(read(), path="a.py"), "ok")) == "untouched"


@pytest.mark.parametrize("outcome", ["error", "denied", "invalid", "suppressed"])
def test_an_edit_that_did_not_happen_is_none(outcome):
    assert status((EDIT, outcome)) == "untouched"
    assert status((EDIT, "ok"), (TEST, "ok"), (EDIT, outcome)) == "green"


@pytest.mark.parametrize("outcome", ["aborted", "timeout"])
def test_an_edit_that_may_have_happened_is_one(outcome):
    assert status((EDIT, outcome)) == "unverified"


def test_looking_at_the_status_changes_nothing():
    verification = Verification()
    verification.observe(EDIT, "ok")
    seen = [(verification.status, verification.edited, verification.command) for _ in range(3)]
    assert seen == [("unverified", ("/w/a.py",), "")] * 3


def test_a_call_that_cannot_be_made_out_is_nothing():
    gone = ToolCall(id="x", name="gone", arguments={})
    odd = ToolCall(id="x", name="bash", arguments={}, tool=bash())
    assert status((gone, "ok"), (odd, "ok"), (call(patch(), files=["a.py"]), "ok")) == "unverified"


CHECKS = [
    "cargo test", "make check", "npm run build", "go vet", "go vet ./...", "go test", "go run .",
    "pytest -q", "RUST_LOG=x cargo clippy", "eslint .", "prettier --check .", "./run-tests.sh",
    "python -m pytest tests/a.py", "cd sub && cargo test --all", "ls; make lint", "make",
    "make -j4", "make -C sub CC=x", "npm run test:unit", "yarn type-check", "just tests",
    "uv run mypy .",
    "bash -c 'npm test'", "python run_tests.py", "sh scripts/check_style.sh", "./gradlew build",
    "timeout 60 tox -e py", "env -i A=1 ./bin/build-all.sh", "sudo ninja", "cargo \\\ntest",
    "a\npytest", "tsc --noEmit", "cmake --build out", "pytest | tail -5",
]  # fmt: skip

NO_CHECKS = [
    "git checkout main", "npm install", "cargo add", "ls tests/", "", "   ", "&&", "git diff",
    "cargo remove test", "pip install pytest", "brew uninstall test", "git checkout test",
    "grep -rn test src", "cat build", "cd build", "mkdir build", "echo run the test", "make clean",
    "# test it", "sudo timeout 9 grep test x", "python manage.py runserver", "env", "go fmt",
    "npm start", "git commit -m 'test it'", "rm -rf build", "node server.js", "python", "./serve",
    "cat > t.sh <<'EOF'\npytest\ncargo test\nEOF\nls", "cat <<-A\n test\n\tA\nls",
]  # fmt: skip


@pytest.mark.parametrize("command", CHECKS)
def test_case_105_it_checks(command):
    assert is_verification(command)


@pytest.mark.parametrize("command", NO_CHECKS)
def test_case_105_it_checks_nothing(command):
    assert not is_verification(command)


def test_case_105_what_stands_after_a_document_counts_again():
    assert is_verification("cat > a.py <<EOF\nx = 1\nEOF\npytest")
    assert is_verification("cat <<< text && pytest")


SHELL = st.lists(
    st.sampled_from([*"abt \t\n&|;<>\\'\"`()=/-_.:#$é\0", "test", "<<", "go ", "sudo ", "make "])
).map("".join)


@settings(max_examples=size(66, 200))
@given(st.one_of(SHELL, st.text()))
def test_case_105_any_text_is_judged_and_a_check_in_a_line_of_its_own_is_seen(text):
    assert isinstance(is_verification(text), bool)
    assert is_verification(f"cargo test\n{text}")


def test_code_is_known_by_its_extension():
    assert [path for path in ("a.py", "x/b.TSX", "C:\\d.rs", "e.sh") if not is_code(path)] == []
    others = ("README.md", "a.toml", "b.json", "c.yaml", "d.txt", "py", ".py", "x.py/notes", "")
    assert [path for path in others if is_code(path)] == []


async def test_files_of_the_folder_we_work_in_are_named_as_the_model_names_them(monkeypatch):
    monkeypatch.setattr("os.getcwd", lambda: "/w")
    model = editing("src/a.py").will_say("done").will_say("no tests")
    texts, _ = await run_verified(model)
    assert "`src/a.py`" in texts[0]
