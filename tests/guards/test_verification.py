"""Cases 104 and 105: edited code is checked before a run ends."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.guards.stop_checks import stop_checks
from dirge_py.guards.verification import (
    Verification,
    changes_only_comments,
    is_code,
    is_verification,
    runs_code,
    track_verification,
    verification_check,
)
from dirge_py.testing import ScriptedModel
from dirge_py.types.tools import ShellCommand, ToolCall
from tests.security.sizes import size
from tests.support.guarded_runs import bash, call, edit, nudges, patch, read, run_guarded


async def run_verified(model, *, most=1):
    verification = Verification()
    checks = stop_checks([verification_check(verification, most)])
    run = await run_guarded(model, track_verification(verification), checks)
    return nudges(run), len(model.seen)


def editing(path="src/main.rs"):
    return ScriptedModel().will_call("edit", path=path)


async def test_case_104_edited_code_without_a_check_gets_one_message():
    texts, asked = await run_verified(editing().will_say("done").will_say("there are no tests"))
    assert (len(texts), asked) == (1, 3)
    assert "/w/src/main.rs" in texts[0]
    assert "nothing has run, built, tested or linted it since" in texts[0]


async def test_case_104_passing_test_after_the_edit_needs_no_message():
    texts, _ = await run_verified(
        editing().will_call("bash", command="cargo test").will_say("done")
    )
    assert texts == []


async def test_case_104_failing_test_gets_a_message_to_fix_it():
    model = editing().will_call("bash", command="cargo test", exit=101)
    texts, _ = await run_verified(
        model.will_say("done").will_say("it failed before, see git stash")
    )
    assert len(texts) == 1
    assert "`cargo test`" in texts[0]
    assert "Fix what broke" in texts[0]


async def test_case_104_edited_documents_need_no_check():
    assert await run_verified(editing("README.md").will_say("done")) == ([], 2)


async def test_case_104_failing_then_passing_test_needs_no_message():
    model = editing().will_call("bash", command="pytest", exit=1)
    model.will_call("edit", path="a.py").will_call("bash", command="pytest").will_say("done")
    assert (await run_verified(model))[0] == []


@pytest.mark.parametrize(
    ("answer", "count"),
    [
        ("Done. `test_add` still fails, as it did before my change.", 0),
        ("I could not make the tests pass: 2 failed.", 0),
        ("Does the test expect the wrong sum?", 0),
        ("I fixed the failing test. Everything works now.", 1),
        ("The tests still fail. Let me look at them.", 1),
    ],
)
async def test_answer_that_reports_the_failed_check_or_asks_gets_no_message(answer, count):
    model = editing().will_call("bash", command="cargo test", exit=1)
    texts, _ = await run_verified(model.will_say(answer).will_say("So it is."))
    assert len(texts) == count


@pytest.mark.parametrize(
    ("answer", "count"),
    [
        ("Done. I have not run the tests.", 0),
        ("I couldn't verify it: cargo isn't installed.", 0),
        ("There are no tests, and it is untested.", 0),
        ("Fixed. Do you want me to run the tests?", 0),
        ("I haven't tested it yet. I'll do that now.", 1),
        ("Fixed; no tests fail.", 1),
    ],
)
async def test_answer_that_says_that_no_check_ran_gets_no_message(answer, count):
    texts, _ = await run_verified(editing().will_say(answer).will_say("So it is."))
    assert len(texts) == count


async def test_g7_edit_after_the_last_passing_test_is_unverified():
    model = editing().will_call("bash", command="cargo test").will_call("edit", path="lib.rs")
    texts, _ = await run_verified(model.will_say("done").will_say("done"))
    assert ["since. Run the check" in text for text in texts] == [True]


async def test_edit_after_a_failed_test_asks_for_another_test_run():
    model = editing().will_call("bash", command="cargo test", exit=1).will_call("edit", path="b.c")
    texts, _ = await run_verified(model.will_say("done").will_say("done"))
    assert ["`cargo test` failed before your last edit" in text for text in texts] == [True]


async def test_g6_every_code_file_of_a_multi_file_edit_counts():
    files = ["notes.md", *[f"f{n}.py" for n in range(7)]]
    model = ScriptedModel().will_call("patch", files=files).will_say("done").will_say("done")
    (text,), _ = await run_verified(model)
    assert "/w/f0.py" in text
    assert "notes" not in text
    assert "and 2 more" in text


@pytest.mark.parametrize("output", ["Exit code: 0", "a test failed once, Exit code: 7 in prose"])
async def test_case_105_output_text_does_not_decide_the_result_of_a_check(output):
    model = editing().will_call("bash", command="cargo test", output=output).will_say("done")
    assert (await run_verified(model))[0] == []


@pytest.mark.parametrize(("most", "count"), [(0, 0), (1, 1), (3, 1)])
async def test_verification_check_sends_at_most_one_message(most, count):
    model = editing().will_say("done").will_say("done")
    assert len((await run_verified(model, most=most))[0]) == count


def status(*calls):
    verification = Verification()
    for made, outcome in calls:
        verification.observe(made, outcome)
    return verification.status


EDIT = call(edit(), path="a.py")
TEST = call(bash(), command="pytest -q")


def test_verification_status_is_of_the_last_check_since_the_last_edit():
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
def test_failed_edit_does_not_change_the_verification_status(outcome):
    assert status((EDIT, outcome)) == "untouched"
    assert status((EDIT, "ok"), (TEST, "ok"), (EDIT, outcome)) == "green"


@pytest.mark.parametrize("outcome", ["denied", "invalid", "suppressed", "unknown_tool", "aborted"])
def test_check_that_did_not_run_does_not_change_the_verification_status(outcome):
    assert status((EDIT, "ok"), (TEST, outcome)) == "unverified"
    assert status((EDIT, "ok"), (TEST, "ok"), (TEST, outcome)) == "green"


@pytest.mark.parametrize("outcome", ["aborted", "timeout"])
def test_aborted_or_timed_out_edit_counts_as_an_edit(outcome):
    assert status((EDIT, outcome)) == "unverified"


RUN = call(bash(), command="python3 a.py")


def test_running_the_edited_file_is_a_check():
    assert status((EDIT, "ok"), (RUN, "ok")) == "green"
    assert status((EDIT, "ok"), (RUN, "failed_command")) == "red"
    assert status((RUN, "ok"), (EDIT, "ok")) == "unverified"
    assert status((EDIT, "ok"), (RUN, "ok"), (EDIT, "ok")) == "unverified"


def test_program_that_times_out_or_fails_after_a_passing_test_is_green():
    assert status((EDIT, "ok"), (RUN, "timeout")) == "green"
    assert status((EDIT, "ok"), (TEST, "ok"), (RUN, "failed_command")) == "green"
    assert status((EDIT, "ok"), (TEST, "failed_command"), (RUN, "ok")) == "green"


def test_edits_of_comments_only_need_no_check():
    verification = Verification()
    verification.observe(EDIT, "ok", diff("+# why"))
    assert (verification.status, verification.edited) == ("untouched", ())
    verification.observe(EDIT, "ok", diff("-x = 1", "+x = 2"))
    assert verification.status == "unverified"
    verification.observe(TEST, "ok")
    verification.observe(EDIT, "ok", diff("-# why", "+# because"))
    assert (verification.status, verification.edited) == ("green", ("/w/a.py",))


def test_reading_the_verification_status_changes_nothing():
    verification = Verification()
    verification.observe(EDIT, "ok")
    seen = [(verification.status, verification.edited, verification.command) for _ in range(3)]
    assert seen == [("unverified", ("/w/a.py",), "")] * 3


def test_call_with_invalid_arguments_is_not_a_check():
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
def test_case_105_command_is_recognized_as_a_check(command):
    assert is_verification(command)


@pytest.mark.parametrize("command", NO_CHECKS)
def test_case_105_command_is_recognized_as_no_check(command):
    assert not is_verification(command)


def test_case_105_command_after_a_heredoc_is_recognized():
    assert is_verification("cat > a.py <<EOF\nx = 1\nEOF\npytest")
    assert is_verification("cat <<< text && pytest")
    assert is_verification("# let's see\npytest")
    assert is_verification("cd x  # we don't test here\npytest")


EDITED = ["/w/app.py", "/w/src/shop/cart.py", "/w/run.sh", "/w/web/server.js", "/w/x.php"]

RUNS = [
    "python3 app.py", "python3.12 app.py --help", "python3 app.py add 2", "bash -n run.sh",
    "python3 -c 'import app; print(app.add(1, 2))'", ". ./run.sh", "node server.js &",
    "PYTHONPATH=src python3 -m shop", "./sums", "./run.sh", "bin/tool", "target/debug/tool -v",
    "(cd src && python3 -c 'import shop.cart')", "node -e \"require('./web/server')\"",
    "php -l x.php", "timeout 5 ./sums", "echo 3 | ./sums", "echo 'import app' | python3",
    "python3 < app.py", "python3 - <<'EOF'\nimport app\nEOF", "uv run app.py", "npm start",
    "uv run python -c 'import app'", "npm run start:dev", "cargo run -- 3", "make run",
    "if ./sums; then echo ok; fi", "for i in 1 2; do ./sums $i; done", "! ./sums",
    'echo "$(python3 app.py)"', "bash -lc 'cd /w && ./sums'", "uvicorn app:main", "app --version",
    "python3 main.py", "python manage.py runserver", '.venv/bin/python app.py 2>&1 | tail -3',
    './todo add "buy milk"', "git stash; python3 app.py; git stash pop", "flask run",
]  # fmt: skip

RUNS_NOTHING = [
    "git add app.py && git commit -m 'app: fix'", "git commit -am 'python3 app.py'", "cat app.py",
    "grep -n add app.py", "sed -n 1,5p app.py | tail -1", "cp app.py old.py", "chmod +x run.sh",
    "python3 -c 'print(1)'", "python3 --version", "pip install app", "python3 -m pip install x",
    "python3 -m venv .venv", "npm install", "npm run clean", "echo python3 app.py", "cd src", "",
    "source venv/bin/activate", "cat > a.md <<EOF\nrun app.py\nEOF", "curl http://localhost/app",
    "python3 -m http.server", "python3 -c 'import http.server'",
    "# python3 app.py", "tar czf x.tgz app.py", "go fmt ./...", "touch app.py", "'", "/usr/bin/id",
]  # fmt: skip


@pytest.mark.parametrize("command", RUNS)
def test_command_runs_imports_or_parses_an_edited_file(command):
    assert runs_code(ShellCommand(command, "/w"), EDITED)


@pytest.mark.parametrize("command", RUNS_NOTHING)
def test_command_runs_no_edited_file(command):
    assert not runs_code(ShellCommand(command, "/w"), EDITED)


def diff(*lines, path="a.py"):
    return "\n".join([f"--- {path}", f"+++ {path}", "@@ -1,3 +1,3 @@", *lines])


@pytest.mark.parametrize(
    ("path", "lines"),
    [
        ("a.py", [" def f():", "+    # why", "     return 1"]),
        ("a.py", [" def f():", '+    """Return 1.', "+", '+    Always."""', "     return 1"]),
        ("a.py", ["-x = 1", "+x = 1  # one", "+"]),
        ("a.js", ["+/**", "+ * Adds.", "+ */", "-// a"]),
        ("a.lua", ["--- old", "+-- new"]),
        ("a.sh", [" #!/bin/sh", "+# why"]),
    ],
)
def test_diff_of_comments_only_is_recognized(path, lines):
    assert changes_only_comments(path, diff(*lines, path=path))


@pytest.mark.parametrize(
    ("path", "lines"),
    [
        ("a.py", ["-x = 1", "+x = 2  # one"]),
        ("a.py", ["-# x = 1", "+x = 1"]),
        ("a.py", ["-    x = 1", "+x = 1"]),
        ("a.py", ["-# a", "+# b", "… 3 more changed lines are not shown."]),
        ("a.c", ["+#include <x.h>"]),
        ("a.sh", ["+#!/bin/bash"]),
        ("a.unknown", ["+# why"]),
    ],
)
def test_diff_of_code_is_recognized(path, lines):
    assert not changes_only_comments(path, diff(*lines, path=path))


def test_empty_diff_counts_as_a_code_change():
    assert not changes_only_comments("a.py", "")


SHELL = st.lists(
    st.sampled_from([*"abt \t\n&|;<>\\'\"`()=/-_.:#$é\0", "test", "<<", "go ", "sudo ", "make "])
).map("".join)


@settings(max_examples=size(66, 200))
@given(st.one_of(SHELL, st.text()))
def test_case_105_any_text_is_judged_and_a_check_on_its_own_line_is_recognized(text):
    assert isinstance(is_verification(text), bool)
    assert isinstance(runs_code(ShellCommand(text, "/w"), EDITED), bool)
    assert is_verification(f"cargo test\n{text}")


def test_code_is_recognized_by_its_extension():
    assert [path for path in ("a.py", "x/b.TSX", "C:\\d.rs", "e.sh") if not is_code(path)] == []
    others = (
        "a.sql",
        "a.css",
        "README.md",
        "a.toml",
        "b.json",
        "c.yaml",
        "d.txt",
        "py",
        ".py",
        "x.py/notes",
        "",
    )
    assert [path for path in others if is_code(path)] == []


async def test_files_in_the_working_folder_are_named_by_relative_path(monkeypatch):
    monkeypatch.setattr("os.getcwd", lambda: "/w")
    model = editing("src/a.py").will_say("done").will_say("no tests")
    texts, _ = await run_verified(model)
    assert "`src/a.py`" in texts[0]
