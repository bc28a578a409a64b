"""A session as one page that needs nothing else: no script, no request, everything escaped."""

from collections.abc import Iterator
from html import escape

from dirge_py.session.transfer.document import Document
from dirge_py.session.transfer.said import facts, heading, parts, speaker
from dirge_py.types.messages import Message, ToolResultMessage

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1rem; font-size: .9rem; }
dd { margin: 0; overflow-wrap: anywhere; }
section { border-left: 3px solid #8884; padding-left: 1rem; margin: 1.5rem 0; }
section.you { border-color: #27c; }
section h2 { font-size: .85rem; margin: 0; opacity: .7; font-weight: normal; }
p, pre { white-space: pre-wrap; overflow-wrap: anywhere; }
pre { font-size: .85rem; background: #8881; padding: .5rem; }
"""
# The page is looked at with whatever rights the browser has: it may load and run nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def as_html(document: Document) -> str:
    title = escape(heading(document))
    rows = "".join(f"<dt>{escape(n)}</dt><dd>{escape(v)}</dd>\n" for n, v in facts(document))
    sections = "".join(_section(message, at) for message, at in document.timed())
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style></head>\n"
        f"<body><h1>{title}</h1>\n<dl>{rows}</dl>\n{sections}</body></html>\n"
    )


def _section(message: Message, at: str) -> str:
    who = speaker(message)
    if not who:
        return ""
    kind = ' class="you"' if who == "You" else ""
    head = escape(who) + (f" · <time>{escape(at)}</time>" if at else "")
    return f"<section{kind}><h2>{head}</h2>\n{''.join(_blocks(message))}</section>\n"


def _blocks(message: Message) -> Iterator[str]:
    for kind, name, text in parts(message):
        body = escape(text)
        if isinstance(message, ToolResultMessage) and kind == "text":
            yield f"<details><summary>output</summary><pre>{body}</pre></details>\n"
        elif kind == "call":
            yield f"<details open><summary>{escape(name)}</summary><pre>{body}</pre></details>\n"
        elif kind == "thinking":
            yield f"<details><summary>thinking</summary><p>{body}</p></details>\n"
        elif kind == "other":
            yield f"<p><em>{body}</em></p>\n"
        else:
            yield f"<p>{body}</p>\n"
