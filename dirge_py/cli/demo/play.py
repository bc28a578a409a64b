"""`dirge demo`: the real program mends a real project; only the model is a script."""

import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from dirge_py.cli.demo.printed import Storyteller, say
from dirge_py.cli.demo.sample_copy import copy_sample
from dirge_py.cli.demo.script import PROMPT, TEST_COMMAND, demo_script
from dirge_py.config.load import load
from dirge_py.config.sources import Overrides
from dirge_py.conversation.conversation import Conversation
from dirge_py.sdk.build import build
from dirge_py.sdk.options import BuildOptions
from dirge_py.types.llm import StreamFn
from dirge_py.types.messages import ToolResultMessage
from dirge_py.types.outcomes import Done
from dirge_py.types.questions import Asker, PermissionAnswer, PermissionRequest

_SCRIPTED = "A demo: the model is a script; tools, permissions, the diff and the test run are real."


class Demo:
    """A copy of the sample repository and all it needs, until `close`; changes into it."""

    scenario: ClassVar[str] = "mend"
    prompt: ClassVar[str] = PROMPT
    rule: ClassVar[str] = f"execute:{TEST_COMMAND}"
    notices: ClassVar[tuple[str, ...]] = (
        _SCRIPTED,
        f"It works in a copy and starts with one rule: --allow '{rule}'",
    )

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="dirge-demo-")
        base = Path(self._folder.name)
        self._before = Path.cwd()
        self._conversation: Conversation | None = None
        self.project = copy_sample(base, self.scenario)
        script = base / "script.toml"
        script.write_text("replies = []\n", encoding="utf-8")
        (base / "config.toml").write_text(
            f'[providers.demo]\ntype = "scripted"\nmodel = "script"\nscript = "{script}"\n',
            encoding="utf-8",
        )
        # Its python is the one that is sure to be there.
        python = os.path.dirname(sys.executable)
        os.environ["PATH"] = os.pathsep.join([python, os.environ.get("PATH", os.defpath)])
        environment = {**os.environ, "DIRGE_STATE_DIR": str(base / "state")}
        self._config = load(Overrides(provider="demo"), environment, base / "config.toml")
        os.chdir(self.project)

    def conversation(self, asker: Asker, *, paced: bool) -> Conversation:
        """A conversation that begins where the script does."""
        return self._built(asker, demo_script(is_paced=paced).stream)

    @property
    def has_passed(self) -> bool:
        """Whether the last command of the run was the tests, and they really passed."""
        if self._conversation is None:
            return False
        results = [m for m in self._conversation.messages if isinstance(m, ToolResultMessage)]
        return bool(results) and results[-1].details.get("exit_code") == 0

    async def play(self, conversation: Conversation) -> bool:
        """Play it to its end; whether it ended well."""
        return isinstance(await conversation.send(self.prompt), Done)

    def close(self) -> None:
        os.chdir(self._before)
        self._folder.cleanup()

    def _built(self, asker: Asker, stream_fn: StreamFn) -> Conversation:
        options = BuildOptions(allow=(self.rule,), notices=self.notices)
        self._conversation = build(self._config, asker, options, stream_fn=stream_fn)
        return self._conversation


class _Refuser:
    """Nobody is there to answer; the script asks for nothing that its rule does not cover."""

    async def permission(self, requests: Sequence[PermissionRequest]) -> Sequence[PermissionAnswer]:
        return [PermissionAnswer(effect="deny") for _ in requests]


def play_printed(demo: Demo) -> int:
    """Play the demo as text; 0 only if the real tests passed at its end."""
    return asyncio.run(_play_printed(demo))


async def _play_printed(demo: Demo) -> int:
    try:
        say("\n".join(demo.notices))
        say(f"\n> {demo.prompt}")
        conversation = demo.conversation(_Refuser(), paced=False)
        conversation.subscribe(Storyteller().sink)
        try:
            passed = await demo.play(conversation) and demo.has_passed
        finally:
            await conversation.close()
    finally:
        demo.close()
    say("\nThe tests passed." if passed else "\nThe tests did not pass: the demo failed.")
    return 0 if passed else 1
