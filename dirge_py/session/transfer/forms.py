"""The forms a session can be written in."""

from typing import Literal

from dirge_py.session.transfer.document import Document, as_json
from dirge_py.session.transfer.html import as_html
from dirge_py.session.transfer.markdown import as_markdown

Form = Literal["md", "html", "json"]

FORMS = {"md": as_markdown, "html": as_html, "json": as_json}


def written(document: Document, form: Form) -> str:
    """The document as one text that ends in a line end."""
    return FORMS[form](document)
