"""`dirge stats`: tokens and cost of the stored sessions by day, model and project."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from dirge_py.cli.arguments import Parser, positive_int
from dirge_py.config.paths import state_dir
from dirge_py.session.ids import project_id
from dirge_py.session.index.session_index import SessionIndex
from dirge_py.slash.stats import DAYS, format_spending, newest_days


def build_stats_parser() -> Parser:
    """The flags of `dirge stats`."""
    parser = Parser(
        prog="dirge stats",
        description="Show tokens and cost of the stored sessions by day, model and project.",
        epilog="`dirge stats about users` is a prompt.",
    )
    add = parser.add_argument
    add("--days", metavar="N", type=positive_int, default=DAYS, help=f"the last N days ({DAYS})")
    add("--json", action="store_true", help="one JSON object")
    return parser


def stats(rest: Sequence[str]) -> int:
    """Print the tables; returns the exit code. Raises UsageError."""
    flags = build_stats_parser().parse_args(list(rest))
    spent = newest_days(SessionIndex(state_dir(), project_id(Path.cwd())).spending(), flags.days)
    if flags.json:
        rows = [asdict(each) for each in sorted(spent, key=lambda each: (each.day, each.model))]
        text = json.dumps({"days": flags.days, "spending": rows}, ensure_ascii=False)
    else:
        text = format_spending(spent, flags.days)
    sys.stdout.write(f"{text}\n")
    return 0
