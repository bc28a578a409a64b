"""What is not believed of a review: only what it ran itself in a clean copy counts."""

import pytest

from dirge_py.plan.project_guard import ReviewerWrites
from dirge_py.plan.runner import resume_plan
from dirge_py.types.events import SystemNotice
from dirge_py.types.outcomes import Done, NotVerified
from dirge_py.types.questions import PermissionAnswer
from tests.plan.workroom import CHECK, Workroom, kept, verdict

NO_CYCLES = "[plan]\nmax_review_cycles = 0\n"
BUILD = "sh build.sh"


@pytest.fixture(autouse=True)
def _allowed(room: Workroom) -> None:
    room.person.answer = PermissionAnswer(effect="allow")
    room.configure(NO_CYCLES)


MAKES_IT_TRUE = (
    "echo yes > answer.txt",
    "python3 -c \"open('answer.txt', 'w').write('yes\\\\n')\"",
    "printf 'yes\\n' | tee answer.txt",
    "bash <<'END'\necho yes > answer.txt\nEND",
    "echo 'echo yes > answer.txt' > /tmp/dirge-test-$$ && sh /tmp/dirge-test-$$",
)


@pytest.mark.parametrize("command", MAKES_IT_TRUE)
async def test_a_reviewer_that_does_the_work_itself_has_shown_nothing(
    room: Workroom, command: str
) -> None:
    room.will_look()
    room.model.will_say("I did nothing.")
    room.model.will_call_all(("bash", {"command": command}), ("bash", {"command": CHECK}))
    room.model.will_say(verdict()).will_say(verdict())

    async with room.open() as talk:
        result = await room.plan(talk)

    assert [(e.command, e.exit_code) for e in room.evidence[1:]] == [(CHECK, 0)]
    assert isinstance(result.outcome, NotVerified)
    assert not (room.project / "answer.txt").exists()


async def test_a_file_of_its_own_counts_no_longer_when_it_is_gone(room: Workroom) -> None:
    room.will_look()
    room.will_write("yes")
    room.model.will_call("bash", command="echo 1 > scratch.txt")
    room.will_review(verdict())
    room.model.will_call("bash", command="rm scratch.txt")
    room.will_review(verdict())

    async with room.open() as talk:
        assert (await room.plan(talk)).outcome == Done()


async def test_what_a_build_makes_in_the_copy_is_what_it_is_for(room: Workroom) -> None:
    (room.project / "build.sh").write_text("cp source.txt built.txt\n")
    (room.project / "check.sh").write_text("grep -qx yes built.txt\n")
    room.will_look()
    room.model.will_call("write", path="source.txt", content="yes\n").will_say("Written.")
    room.model.will_call("bash", command=BUILD)
    room.will_review(verdict())

    async with room.open() as talk:
        assert (await room.plan(talk)).outcome == Done()

    assert not (room.project / "built.txt").exists()


async def test_a_review_does_not_count_what_one_before_it_ran(room: Workroom) -> None:
    room.will_look()
    room.will_write("yes")
    room.model.will_call("bash", command=CHECK)
    async with room.open() as talk:

        async def interrupt() -> None:
            assert talk.exclusive_owner is not None
            talk.exclusive_owner.interrupt()

        room.model.will_say("It passes.", hold=interrupt)
        await room.plan(talk)
        ids = [each["id"] for each in kept(talk).evidence]

        room.model.will_say(verdict()).will_say(verdict())
        result = await resume_plan(talk, room.desk)

        assert isinstance(result.outcome, NotVerified)
        room.will_write("yes")
        room.will_review(verdict())
        await resume_plan(talk, room.desk)
        assert [each["id"] for each in kept(talk).evidence][: len(ids)] == ids
        assert len({each.id for each in room.evidence}) == len(room.evidence)


async def test_what_a_review_changes_here_is_undone_and_a_person_s_work_is_not(
    room: Workroom,
) -> None:
    room.configure(f"{NO_CYCLES}[session]\nsnapshots = true\n")
    check, notes = room.project / "check.sh", room.project / "notes.txt"
    before = check.read_text()
    room.will_look()
    room.will_write("no")
    (room.project / "spoil.sh").write_text(f"echo true > {check}\n")
    room.model.will_call("bash", command="sh spoil.sh")

    async def person() -> None:
        notes.write_text("mine")

    room.model.will_say(verdict("NEEDS_FIX", missing="no", status="not_verified"), hold=person)
    room.will_review(verdict())  # it is reviewed once more, as that review counts for nothing
    room.model.will_say(verdict())

    async with room.open() as talk:
        result = await room.plan(talk)

    assert (check.read_text(), notes.read_text()) == (before, "mine")
    assert isinstance(result.outcome, NotVerified)
    told = " ".join(e.content for e in room.events if isinstance(e, SystemNotice))
    assert "must not change the project, and did: check.sh. It is undone." in told
    assert "left alone: notes.txt" in told


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
async def test_only_after_what_may_write_files_by_hand_files_are_looked_for(
    room: Workroom, command: str, is_looked_at: bool
) -> None:
    top = room.project
    strays = ReviewerWrites(top)
    await strays.begin("call", command.format(top=top))
    (top / "new").touch()
    (top / "__pycache__").mkdir()
    await strays.end("call")

    assert strays.are_there == is_looked_at
    (top / "new").unlink()
    assert not strays.are_there
