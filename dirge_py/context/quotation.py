"""Texts from elsewhere within a prompt, so that none of them can end its own quotation."""

import hashlib


def quoted(title: str, text: str) -> str:
    """`text` between lines with its title and a digest of it, which it cannot hold itself."""
    mark = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
    return f"--- {title} ({mark}) ---\n{text}\n--- end ({mark}) ---"
