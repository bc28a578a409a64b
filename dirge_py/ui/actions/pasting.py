"""Pasting from the desktop's clipboard, which terminals only do with text."""

import asyncio
import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dirge_py.ui.app import DirgeApp


class Pasting:
    """The picture on the clipboard goes into the input, or its text if there is none."""

    def __init__(self, app: "DirgeApp") -> None:
        self._app = app

    async def paste(self) -> None:
        app = self._app
        # Imported now: few starts ever paste a picture.
        clipboard = importlib.import_module("dirge_py.ui.terminal.clipboard")
        clip = await asyncio.to_thread(clipboard.read_clipboard)
        if clip.problem:
            app.hint(clip.problem)
        elif not clip.image:
            app.composer.paste(clip.text)
        elif len(clip.image) > importlib.import_module("dirge_py.files.assets").PICTURE_LIMIT:
            app.say("The picture is larger than 5 MiB. Scale it down first.", tone="warning")
        elif problem := _blindness(app):
            app.say(problem, tone="warning")
        else:
            app.composer.write(app.pictures.take(clip.image) + " ")


def _blindness(app: "DirgeApp") -> str:
    """Why the model cannot look at it; empty if it can, or where nobody knows."""
    conversation = app.talk.conversation
    if conversation is None or conversation.settings.sees_pictures in (None, True):
        return ""
    return (
        f"{conversation.settings.model} cannot look at pictures; /model switches to another model."
    )
