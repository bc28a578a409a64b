"""Numbers as people read them."""


def thousands(count: int) -> str:
    """`950`, `12k`, `1.2M`."""
    if count < 1000:
        return str(count)
    return f"{count // 1000}k" if count < 1_000_000 else f"{count / 1_000_000:.1f}M"


def dollars(price: float | None, least: float = 0.0) -> str:
    """As `$0.0123`; of an unknown price what is known of it, as `$0.0063+`, or `unknown`."""
    if price is not None:
        return f"${price:.4f}"
    return f"${least:.4f}+" if least else "unknown"


def told_cost(price: float | None, least: float = 0.0) -> str:
    """The same where no heading says that it is the cost."""
    told = dollars(price, least)
    return "cost unknown" if told == "unknown" else told
