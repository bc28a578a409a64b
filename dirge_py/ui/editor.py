"""Writing the prompt in `$VISUAL` or `$EDITOR`, with the screen handed over meanwhile."""

import os
import shlex
import tempfile
from pathlib import Path

from textual.app import App, SuspendNotSupported

from dirge_py.errors import ProcessError
from dirge_py.processes.foreground import run_in_foreground


def edit_in_editor(app: App[int], text: str) -> str | None:
    """What the person made of `text`; None if they left it as it was.

    Raises:
        ProcessError: there is no editor, it failed, or this terminal cannot be handed over.
    """
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    descriptor, name = tempfile.mkstemp(prefix="dirge-", suffix=".md", text=True)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as draft:
            draft.write(text)
        with app.suspend():
            code = run_in_foreground([*shlex.split(editor), name])
        if code != 0:
            raise ProcessError(f"{editor} ended with exit code {code}.", hint="The draft is kept.")
        edited = Path(name).read_text(encoding="utf-8", errors="replace").removesuffix("\n")
    except SuspendNotSupported as error:
        raise ProcessError("this terminal cannot be handed to an editor.") from error
    finally:
        Path(name).unlink(missing_ok=True)
    return edited if edited != text else None
