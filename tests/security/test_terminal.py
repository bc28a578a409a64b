"""Untrusted text never controls the terminal, and a question shows what would run."""

import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual.strip import Strip

from dirge_py.slash.base import Choice
from dirge_py.types.events import (
    AgentStart,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from dirge_py.types.messages import AssistantMessage, TextBlock, ThinkingBlock, UserMessage
from dirge_py.types.questions import (
    ActingFile,
    AskedClaim,
    PermissionRequest,
    Question,
    QuestionOption,
    RuleOffer,
    TrustOffer,
)
from dirge_py.types.tools import FileChange, Preview, text_result
from dirge_py.ui.panels.dialog import ScrollingLines
from dirge_py.ui.panels.permission import PermissionChoice, paint_request
from dirge_py.ui.status import StatusModel, status_line
from dirge_py.ui.theme.styles import load_theme, styles_for
from dirge_py.ui.transcript.renderer import TranscriptRenderer
from tests.security.sizes import count, size
from tests.support.app_driver import AppDriver, running_app
from tests.support.fake_service import FakeService, ModelReply
from tests.support.project import ScriptedProject
from tests.support.terminal import Terminal
from tests.ui.test_transcript import Page

INK = styles_for(load_theme("dark"))

# -- what might be said to a terminal


def sequences() -> Iterator[str]:
    """Escape sequences, and characters that hide or reorder others."""
    ends = ("\x07", "\x1b\\", "\x9c", "")
    for number in (0, 1, 2, 4, 7, 8, 9, 10, 11, 12, 52, 104, 110, 133, 777, 1337):
        for start, end in itertools.product(("\x1b]", "\x9d"), ends):
            yield f"{start}{number};c;T1dOTkVE{end}"
    for start, end in itertools.product(
        ["\x1bP", "\x1bX", "\x1b^", "\x1b_", "\x90", "\x98", "\x9e", "\x9f"], ends
    ):
        yield f'{start}$q"pOWNED{end}'
    for final in map(chr, range(0x40, 0x7F)):
        yield from (f"\x1b[{final}", f"\x1b[2;3{final}", f"\x1b[?25{final}", f"\x9b9{final}")
    for mode in (1, 3, 5, 6, 7, 25, 47, 69, 1000, 1002, 1003, 1004, 1006, 1049, 2004, 2026, 2027):
        yield from (f"\x1b[?{mode}h", f"\x1b[?{mode}l")
    yield from (f"\x1b{char}" for char in map(chr, range(0x20, 0x7F)))
    yield from (f"\x1b{middle}{final}" for middle in "#%()*+ " for final in "08ABGF@")
    yield from (char for char in map(chr, range(0xA0)) if not char.isprintable() and char != "\n")
    yield from (
        "\x1b" * 9,
        "\x1b[" + "1;" * 3000,
        "\x1b[1\x1b]0;OWNED\x07m",
        "\x1b]0;OW\x18NED\x07",
    )
    yield from ("x\rOWNED", "x\b\bOWNED", "\x1b]8;;http://x\x07y\x1b]8;;\x07", "\x1b[6n", "\x1b[>c")
    hidden = [*range(0x202A, 0x202F), *range(0x2066, 0x2070), 0x200B, 0x200E, 0x200F, 0x61C, 0xAD]
    hidden += [0x34F, 0x115F, 0x3164, 0xFEFF, 0xFFA0, 0x2028, 0x2029, 0xE0001, 0xE0041, 0xE0100]
    yield from (f"a{chr(code)}b" for code in hidden)


CORPUS = list(dict.fromkeys(sequences()))
_FILLERS = "\u034f\u115f\u1160\u3164\uffa0\u180b"


def test_corpus_of_escape_sequences_is_complete() -> None:
    assert len(CORPUS) >= 500


def obeyed(line: str) -> list[str]:
    """The characters of a drawn line that are not plain text."""
    return [
        char
        for char in line
        if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") or char in _FILLERS
    ]


def judge(lines: Iterable[str]) -> None:
    """Check that all of these lines, which show the corpus, are plain text."""
    found = [line for line in lines if obeyed(line)]
    count("terminal", len(CORPUS), len(found), "drew more than text")
    assert found == []


@pytest.fixture
def project(home: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedProject:
    project = ScriptedProject(home)
    monkeypatch.chdir(project.folder)
    return project


# -- in the transcript


def of_answers(renderer: TranscriptRenderer, text: str) -> None:
    content = (ThinkingBlock(text=text), TextBlock(f"a {text}\n\n```\n{text}\n```\n\n| {text} |"))
    renderer.replay([AssistantMessage(content=content)])


def of_a_person(renderer: TranscriptRenderer, text: str) -> None:
    renderer.replay([UserMessage(content=(TextBlock(text),), attached=(text,))])


def of_tools(renderer: TranscriptRenderer, text: str) -> None:
    call: dict[str, Any] = {"tool_call_id": text, "tool_name": f"bash{text}"}
    renderer.on_event(AgentStart(run_id="r"))
    renderer.on_event(
        ToolExecutionStart(args={"command": text, text: text, "more": [text]}, **call)
    )
    update = text_result(text, quiet_s=text, done=text)
    renderer.on_event(ToolExecutionUpdate(args={}, partial_result=update, **call))
    result = text_result(f"{text}\n{text}")
    renderer.on_event(ToolExecutionEnd(result=result, is_error=False, **call))


def of_changes(renderer: TranscriptRenderer, text: str) -> None:
    call: dict[str, Any] = {"tool_call_id": text, "tool_name": "edit"}
    diff = f"--- {text}\n+++ {text}\n@@ -1 +1 @@\n-{text}\n+{text}"
    renderer.on_event(AgentStart(run_id="r"))
    renderer.on_event(ToolExecutionStart(args={"path": text}, **call))
    result = text_result(text, diff=diff)
    renderer.on_event(ToolExecutionEnd(result=result, is_error=False, **call))


def of_notices(renderer: TranscriptRenderer, text: str) -> None:
    renderer.notice(text)


@pytest.mark.parametrize("way", [of_answers, of_a_person, of_tools, of_changes, of_notices])
def test_transcript_sends_no_escape_sequences_of_others(way: Any) -> None:
    page = Page(INK, 60)
    page.expand_all(True)
    renderer = TranscriptRenderer(page)
    for text in CORPUS:
        way(renderer, text)
    judge(page.text.split("\n"))


PIECES = st.lists(
    st.sampled_from([*CORPUS, "a", " ", "\n", "é", "漢", "[31m", "]52;c;x"]), max_size=9
)


def test_transcript_sends_no_mixed_escape_sequences_of_others() -> None:
    drawn: list[str] = []

    @settings(max_examples=size(20, 5000), deadline=None)
    @given(PIECES)
    def mix(pieces: list[str]) -> None:
        page = Page(INK, 20)
        page.expand_all(True)
        renderer = TranscriptRenderer(page)
        for way in (of_answers, of_tools, of_changes):
            way(renderer, "".join(pieces))
        drawn.append(page.text)
        assert obeyed(page.text.replace("\n", "")) == []

    mix()
    count("terminal", len(drawn), 0, "drew more than text")


# -- around it


def texts(driver: AppDriver) -> Iterator[str]:
    """Every line of every sheet, visible or not."""
    for sheet in driver.app.query(ScrollingLines):
        yield from (strip.text for strip in sheet._strips)
    yield from driver.screen.split("\n")


def request(text: str) -> PermissionRequest:
    claim = AskedClaim(op="edit", resource=text, effect="ask", policy="default", reason=text)
    change = FileChange(path=text, before=text, after=f"{text}\n{text}", before_sha256="x")
    return PermissionRequest(
        call_id="c",
        tool_name=text,
        claims=(claim,),
        offers=(RuleOffer((text,)), RuleOffer((text,))),
        warning=text,
        cwd=text,
        preview=Preview(kind="diff", text=text, path=text, changes=(change,)),
    )


async def test_questions_and_trust_lists_send_no_escape_sequences_of_others(
    project: ScriptedProject,
) -> None:
    some = CORPUS[:: size(80, 1)]
    # All at once, and without a screen, they are in the next test.
    many = "\n".join(CORPUS[:: size(7, 1)])
    options = tuple(QuestionOption(label=text, description=text) for text in some)
    form = [Question(question=many, header=CORPUS[0], options=options)]
    files = tuple(ActingFile(path=t, kind=t, size=1, sha256=t) for t in some)
    offer = TrustOffer(project=CORPUS[0], files=files, digest="d")
    async with running_app(project) as driver:
        for ask in (
            lambda: driver.asker.question(form),  # type: ignore[attr-defined]
            lambda: driver.asker.trust(offer),  # type: ignore[attr-defined]
            lambda: driver.asker.permission([request(many), *map(request, CORPUS[:9])]),
        ):
            worker = driver.app.run_worker(ask())
            await driver.until(lambda: driver.panel and driver.panel.has_focus)
            await driver.pilot.press("h", *(["enter"] if driver.dialog else []))
            await driver.pilot.pause()
            judge(texts(driver))
            worker.cancel()
            await driver.until(lambda: driver.panel is None)
            driver.app.composer.put("")
            await driver.pilot.pause()


@pytest.mark.parametrize("text", ["\n".join(CORPUS), CORPUS[9], "\x1b]0;OWNED\x07", "\u202e"])
def test_permission_question_sends_no_escape_sequences_of_others(text: str) -> None:
    asked = PermissionChoice(request(text))
    painted = paint_request(asked.request, "", 60, INK, files=asked.selection.files)
    commanded = request(text)
    command = Preview(kind="command", text=text)
    plain = PermissionRequest(
        call_id="c", tool_name=text, claims=commanded.claims, preview=command, cwd=text
    )
    judge(strip.text for strip in [*painted, *paint_request(plain, "", 60, INK)])
    judge([asked.rules_shown])


async def test_lists_pastes_and_status_line_send_no_escape_sequences_of_others(
    project: ScriptedProject,
) -> None:
    drawn: list[str] = []
    async with running_app(project) as driver:
        for text in CORPUS:
            driver.app.proposals.offer([Choice(id=text, label=text, detail=text)], title=text)
            drawn += [driver.app.proposals.render_line(y).text for y in range(3)]
        for at in range(0, len(CORPUS), 20):
            driver.app.composer.put("")
            await driver.paste(" ".join(CORPUS[at : at + 20]))
            drawn += driver.screen.split("\n")
    standing = StatusModel(place="\n".join(CORPUS), model=CORPUS[0], mode="plan", state="ready")
    drawn += [text for text, _ in status_line(standing, 1000, INK)]
    judge(drawn)


# -- in a terminal


_SENT = re.compile(r"\x1b(?:\[([<-?]*)([\d;:]*)[ -/]*([@-~])|\](\d*)|(.))")


def forms(output: bytes) -> set[tuple[str, ...]]:
    """The kinds of sequences that were sent: modes with their numbers, others without."""
    sent = set()
    for private, numbers, final, osc, other in _SENT.findall(output.decode("utf-8", "replace")):
        sent.add((private, numbers if final in "hl" else "", final, osc, other))
    return sent


class Screen(pyte.Screen):
    """An emulator that records requests beyond drawing."""

    def __init__(self) -> None:
        super().__init__(80, 24)
        self.answers: list[str] = []
        self.rings = 0

    def bell(self, *_: object) -> None:
        self.rings += 1

    def write_process_input(self, data: str) -> None:
        self.answers.append(data)


def played(folder: Path, said: str, name: str, mark: bytes) -> tuple[set[tuple[str, ...]], Screen]:
    """The bytes sent for an answer, a command's output and a question with this text."""
    (folder / "said").write_text(said)
    (folder / name).write_text("x")
    calls = [("bash", {"command": "cat said; ls"}), ("bash", {"command": f"touch x\n{said}"})]
    with FakeService(
        [ModelReply(text=said, calls=calls[:1]), ModelReply(calls=calls[1:])]
    ) as service:
        terminal = Terminal(
            ["-m", "dirge_py", "go"], cwd=folder, OPENAI_BASE_URL=service.openai_url
        )
        try:
            terminal.read_until("read to the end")
            terminal.press("\x1b[F")
            terminal.read_until("deny with a comment")
            # What was read so far may end in the middle of a sequence.
            drawn = re.sub(rb"\x1b(\[[<-?]*[\d;:]*[ -/]*)?\Z", b"", terminal.output)
            terminal.press("\x03")
            terminal.read_until("Interrupted")
            terminal.press("\x04")
            terminal.finish()
        finally:
            terminal.child.kill()
            terminal.child.wait()
    assert mark in drawn
    screen = Screen()
    pyte.ByteStream(screen).feed(drawn)
    return forms(drawn), screen


def test_hostile_text_reaches_the_terminal_as_plain_text(tmp_path: Path) -> None:
    projects = [tmp_path / parent / "project" for parent in ("plain", "hostile")]
    for folder in projects:
        folder.mkdir(parents=True)
    plain, calm = played(projects[0], "words\n" * 400, "name", b"words")
    hostile, screen = played(
        projects[1],
        "\n".join(CORPUS).replace("\0", ""),
        "\x1b]0;OWNED\x07\u202e",
        b"T1dOTkVE",
    )
    count("terminal", len(CORPUS), len(hostile - plain), "were sent on")
    assert hostile <= plain
    assert screen.title == calm.title
    assert screen.icon_name == calm.icon_name
    assert screen.mode == calm.mode
    assert (screen.rings, screen.answers) == (0, [])


# -- the words of a question


def commands() -> st.SearchStrategy[str]:
    words = st.sampled_from(
        ["rm", "-rf", "/", "'a b'", '"$x"', "\\", "&&", "#", "é", "漢字", "e\u0301", "x" * 300]
    )
    odd = st.sampled_from(
        ["\u202e", "\u200b", "\u00a0", "\x1b[2K", "\r", "\x00", "\U000e0041", "<", "U+41>", "─"]
    )
    gaps = st.sampled_from(["", " ", "  ", "\t", "\n", " " * 9, "\t" * 12, "\n" * 6, " " * 500])
    pairs = st.lists(st.tuples(words | odd, gaps), min_size=1, max_size=40)
    return st.one_of(pairs.map(lambda found: "".join(w + g for w, g in found)), st.text())


def printed(strips: Iterable[Strip]) -> str:
    """The command as the question shows it."""
    lines = [strip.text for strip in strips]
    return "\n".join(line.removeprefix("│ ") for line in lines if line.startswith("│ "))


def restore_escapes(shown: str) -> str:
    """The command that the text on the screen stands for, with escapes undone."""
    shown = re.sub(r"\n<(\d+) empty lines>\n", lambda m: "\n" * (int(m[1]) + 1), shown)
    shown = re.sub(r" <(\d+) spaces> |<(\d+) spaces?>", lambda m: " " * int(m[1] or m[2]), shown)
    return re.sub(r"<U\+([0-9A-F]{4,6})>", lambda m: chr(int(m[1], 16)), shown)


def spelled(command: str) -> str:
    """The command with tabs as four blanks, or one in a run that is only counted."""
    counted = re.sub(r"[ \t]{9,}|[ \t]+(?=\n|\Z)", lambda m: " " * len(m[0]), command)
    return counted.replace("\t", " " * 4)


def test_a_question_shows_the_command_that_would_run() -> None:
    tried: list[str] = []

    @settings(max_examples=size(30, 10_000), deadline=None)
    @given(commands())
    def show(command: str) -> None:
        asked = PermissionRequest(
            call_id="c", tool_name="bash", claims=(), preview=Preview(kind="command", text=command)
        )
        tried.append(command)
        wide = printed(paint_request(asked, "", 1_000_000, INK))
        assert restore_escapes(wide) == spelled(command)
        # On a narrow screen it is wrapped, which takes blanks away and nothing else.
        narrow = printed(paint_request(asked, "", 33, INK))
        assert "".join(narrow.split()) == "".join(wide.split())

    show()
    count("prompt honesty", len(tried), 0, "shown differently")
