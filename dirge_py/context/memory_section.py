"""What is remembered from earlier sessions, as a section of the system prompt."""

from dirge_py.context.prompt_text import prompt_text
from dirge_py.context.quotation import quoted


def as_section(project: str, user: str) -> str:
    """The section for what both stores say; empty where neither says anything."""
    parts = [
        quoted(title, text.strip())
        for title, text in (
            ("USER.md, about the person", user),
            ("MEMORY.md, about this project", project),
        )
        if text.strip()
    ]
    return "\n\n".join([prompt_text("memory"), *parts]) if parts else ""
