"""Numbers as people read them."""


def thousands(count: int) -> str:
    """`950`, `12k`, `1.2M`."""
    if count < 1000:
        return str(count)
    return f"{count // 1000}k" if count < 1_000_000 else f"{count / 1_000_000:.1f}M"
