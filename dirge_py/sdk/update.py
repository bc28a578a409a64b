"""Updates of dirge: how it was installed, the newest release, and the notice about it."""

import json
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import invalidate_caches
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeAlias

from dirge_py.config.paths import state_dir
from dirge_py.config.schema import Config
from dirge_py.files.atomic import atomic_write
from dirge_py.lib import version
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.version import __version__
from dirge_py.tools.web.package_index import newest_release
from dirge_py.types.errors import DirgeError

_PACKAGE = "dirge-py"
_DAY_S = 24 * 3600.0
_FILE = "update.json"
Newest: TypeAlias = Callable[[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """How this dirge was installed."""

    kind: Literal["pipx", "uv tool", "pip", "clone"]
    """What installed it; `clone`: it runs from a git checkout."""
    command: tuple[str, ...]
    """The command that updates it."""


def find_installation(
    prefix: Path = Path(sys.prefix),
    source: Path = Path(version.__file__).parents[2],
    *,
    is_editable: bool | None = None,
) -> Installation:
    """Return how dirge was installed, by what its installer left in the environment `prefix`.

    `source` is the folder that holds the package; `is_editable`: pip only refers to it.
    """
    if (source / ".git").exists() or (_is_editable() if is_editable is None else is_editable):
        command = ("git", "-C", str(source), "pull", "--ff-only")
        return Installation(kind="clone", command=command)
    if (prefix / "pipx_metadata.json").is_file():
        return Installation(kind="pipx", command=("pipx", "upgrade", _PACKAGE))
    if (prefix / "uv-receipt.toml").is_file():
        return Installation(kind="uv tool", command=("uv", "tool", "upgrade", _PACKAGE))
    pip: tuple[str, ...] = (sys.executable, "-m", "pip", "install", "--upgrade", _PACKAGE)
    if find_spec("pip") is None:  # as in an environment that uv made
        pip = ("uv", "pip", "install", "--python", sys.executable, "--upgrade", _PACKAGE)
    return Installation(kind="pip", command=pip)


def installed_version() -> str:
    """Return the version that is installed now, also after an update; "" if it is unknown."""
    invalidate_caches()
    try:
        return distribution(_PACKAGE).version
    except PackageNotFoundError:
        return ""


def _is_editable() -> bool:
    try:
        text = distribution(_PACKAGE).read_text("direct_url.json")
    except PackageNotFoundError:
        return False
    with suppress(ValueError, AttributeError):
        return bool(json.loads(text or "{}").get("dir_info", {}).get("editable"))
    return False


def is_newer(release: str, than: str = __version__) -> bool:
    """Whether `release` is a later version; one that is no plain release isn't."""
    numbers = re.fullmatch(r"v?(\d+(?:\.\d+)*)(?:\.post\d+)?", release.strip())
    own = re.match(r"\d+(?:\.\d+)*", than)
    if numbers is None or own is None:
        return False
    return _parts(numbers[1]) > _parts(own[0])


def _parts(numbers: str) -> list[int]:
    parts = [int(part[:9]) for part in numbers.split(".")]
    while parts and not parts[-1]:
        parts.pop()
    return parts


def update_notices(
    config: Config,
    *,
    installation: Installation | None = None,
    newest: Newest = newest_release,
    now_s: Callable[[], float] = time.time,
) -> tuple[str, ...]:
    """Return a notice if a newer version is known, at most once a day. Never waits for the index.

    The index is asked in the background, at most once a day, for the next start. Nothing happens
    with `[update] check = false`, nor in a clone.
    """
    if not config.update.check:
        return ()
    file = state_dir(config.origin.environment) / _FILE
    known, now = _read(file), now_s()
    release = str(known.get("newest") or "").strip()
    is_due = not _is_recent(known.get("asked"), now)
    is_news = is_newer(release) and not _is_recent(known.get("noticed"), now)
    if not (is_due or is_news) or (installation or find_installation()).kind == "clone":
        return ()
    stamps = {name: now for name, does in (("asked", is_due), ("noticed", is_news)) if does}
    # Before the request: a start that ends during it must not be followed by a second one.
    if not _write(file, {**known, **stamps}):
        return ()
    if is_due:
        ask = threading.Thread(target=_ask, args=(file, config.update.index_url, newest))
        ask.daemon = True
        ask.start()
    if not is_news:
        return ()
    return (f"dirge {release} is available (this is {__version__}): `dirge update`.",)


def _is_recent(at: Any, now: float) -> bool:
    """Whether the time `at` was within the last day; a time that is still to come isn't."""
    return isinstance(at, int | float) and 0 <= now - at < _DAY_S


def _ask(file: Path, url: str, newest: Newest) -> None:
    with suppress(Exception):  # offline, or no index: the next day's start asks again
        _write(file, {**_read(file), "newest": newest(url)})


def _read(file: Path) -> Mapping[str, Any]:
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _write(file: Path, value: Mapping[str, Any]) -> bool:
    """Store the value; returns whether that was possible."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        atomic_write(file, json.dumps(value).encode(), mode=0o600)
    except (OSError, DirgeError):
        return False
    return True
