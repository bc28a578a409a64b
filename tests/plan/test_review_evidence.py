"""Evidence of a review counts only if it ran in a clean copy."""

import asyncio
import sys

import pytest

from dirge_py.files.working_copy import remove_tree
from dirge_py.plan.project_guard import ReviewerWrites
from dirge_py.plan.runner import resume_plan
from dirge_py.types.events import SystemNotice
from dirge_py.types.outcomes import Done, NotVerified
from dirge_py.types.questions import PermissionAnswer
from tests.support.plan_project import CHECK, PlanProject, stored_plan, verdict

NO_CYCLES = "[plan]\nmax_review_cycles = 0\n"
BUILD = "sh build.sh"


@pytest.fixture(autouse=True)
def _allowed(project: PlanProject) -> None:
    project.user.answer = PermissionAnswer(effect="allow")
    project.configure(NO_CYCLES)


MAKES_IT_TRUE = (
    "echo yes > answer.txt",
    "python3 -c \"open('answer.txt', 'w').write('yes\\\\n')\"",
    "printf 'yes\\n' | tee answer.txt",
    "bash <<'END'\necho yes > answer.txt\nEND",
    "echo 'echo yes > answer.txt' > /tmp/dirge-test-$$ && sh /tmp/dirge-test-$$",
)


@pytest.mark.parametrize("command", MAKES_IT_TRUE)
async def test_evidence_after_reviewer_changed_files_does_not_count(
    project: PlanProject, command: str
) -> None:
    project.will_look()
    project.model.will_say("I did nothing.")
    project.model.will_call_all(("bash", {"command": command}), ("bash", {"command": CHECK}))
    project.model.will_say(verdict()).will_say(verdict())

    async with project.open() as conversation:
        result = await project.plan(conversation)

    assert [(e.command, e.exit_code) for e in project.evidence[1:]] == [(CHECK, 0)]
    assert isinstance(result.outcome, NotVerified)
    assert not (project.folder / "answer.txt").exists()


async def test_evidence_counts_again_after_reviewer_removes_its_file(project: PlanProject) -> None:
    project.will_look()
    project.will_write("yes")
    project.model.will_call("bash", command="echo 1 > scratch.txt")
    project.will_review(verdict())
    project.model.will_call("bash", command="rm scratch.txt")
    project.will_review(verdict())

    async with project.open() as conversation:
        assert (await project.plan(conversation)).outcome == Done()


async def test_evidence_counts_after_build_creates_files_in_copy(project: PlanProject) -> None:
    (project.folder / "build.sh").write_text("cp source.txt built.txt\n")
    (project.folder / "check.sh").write_text("grep -qx yes built.txt\n")
    project.will_look()
    project.model.will_call("write", path="source.txt", content="yes\n").will_say("Written.")
    project.model.will_call("bash", command=BUILD)
    project.will_review(verdict())

    async with project.open() as conversation:
        assert (await project.plan(conversation)).outcome == Done()

    assert not (project.folder / "built.txt").exists()


async def test_review_does_not_count_evidence_of_earlier_review(project: PlanProject) -> None:
    project.will_look()
    project.will_write("yes")
    project.model.will_call("bash", command=CHECK)
    async with project.open() as conversation:

        async def interrupt() -> None:
            assert conversation.exclusive_owner is not None
            conversation.exclusive_owner.interrupt()

        project.model.will_say("It passes.", hold=interrupt)
        await project.plan(conversation)
        ids = [each["id"] for each in stored_plan(conversation).evidence]

        project.model.will_say(verdict()).will_say(verdict())
        result = await resume_plan(conversation, project.approver)

        assert isinstance(result.outcome, NotVerified)
        project.will_write("yes")
        project.will_review(verdict())
        await resume_plan(conversation, project.approver)
        assert [each["id"] for each in stored_plan(conversation).evidence][: len(ids)] == ids
        assert len({each.id for each in project.evidence}) == len(project.evidence)


async def test_project_changes_by_review_are_undone_and_user_changes_stay(
    project: PlanProject,
) -> None:
    project.configure(f"{NO_CYCLES}[session]\nsnapshots = true\n")
    check, notes = project.folder / "check.sh", project.folder / "notes.txt"
    before = check.read_text()
    project.will_look()
    project.will_write("no")
    (project.folder / "spoil.sh").write_text(f"echo true > {check}\n")
    project.model.will_call("bash", command="sh spoil.sh")

    async def user() -> None:
        notes.write_text("mine")

    project.model.will_say(verdict("NEEDS_FIX", missing="no", status="not_verified"), hold=user)
    project.will_review(verdict())  # it is reviewed once more, as that review counts for nothing
    project.model.will_say(verdict())

    async with project.open() as conversation:
        result = await project.plan(conversation)

    assert (check.read_text(), notes.read_text()) == (before, "mine")
    assert isinstance(result.outcome, NotVerified)
    text = " ".join(e.content for e in project.events if isinstance(e, SystemNotice))
    assert "must not change the project, but did: check.sh. It is undone." in text
    assert "which stay: notes.txt" in text


@pytest.mark.parametrize(
    ("command", "is_looked_at"),
    [
        ("make test", False),
        ("pytest -q 2>&1", False),
        ("sh check.sh > /dev/null 2>&1", False),
        ("cd {top} && ./run-tests", False),
        ("pytest > {top}/out.txt", True),
        ("FOO=1 touch x", True),
        ("git apply fix.patch", True),
        ("true; mv a b", True),
        ("perl -e 'print 1'", True),
    ],
)
async def test_new_files_are_checked_only_after_commands_that_may_write_files(
    project: PlanProject, command: str, is_looked_at: bool
) -> None:
    top = project.folder
    writes = ReviewerWrites(top)
    await writes.begin("call", command.format(top=top))
    (top / "new").touch()
    (top / "__pycache__").mkdir()
    await writes.end("call")

    assert writes.are_there == is_looked_at
    (top / "new").unlink()
    assert not writes.are_there


async def test_new_file_is_found_beside_1500_nested_folders(project: PlanProject) -> None:
    writes = ReviewerWrites(project.folder)
    await writes.begin("call", "touch new")
    maker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "import os\nfor n in range(1500):\n os.mkdir('a')\n os.chdir('a')"),
        cwd=project.folder,
    )
    await maker.wait()
    try:
        await writes.end("call")
        assert writes.are_there
    finally:
        # Pytest can't remove folders that are nested so deep.
        assert remove_tree(str(project.folder / "a"))
