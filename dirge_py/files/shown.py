"""What a person was shown of a call's changes, and what they made of them."""

from collections.abc import Callable, Mapping, Sequence

from dirge_py.files.identity import FileContent
from dirge_py.types.errors import FileError
from dirge_py.types.tools import FileChange


class ShownChanges:
    """The changes of one call as they were shown, by every name of their files.

    `real_of` tells the physical path of a path.
    """

    def __init__(
        self,
        shown: Sequence[FileChange],
        chosen: Sequence[FileChange] | None,
        real_of: Callable[[str], str],
    ) -> None:
        self._shown = _by_name(shown, real_of)
        self._chosen = _by_name(chosen or (), real_of)

    def check(self, path: str, real: str, found: FileContent | None) -> None:
        """Return if `found` is what was shown of the file, or nothing was.

        Raises:
            FileError: it is another version.
        """
        shown = self._shown.get(path) or self._shown.get(real)
        if shown is None:
            return
        sha256 = None if found is None else found.identity.sha256
        if sha256 != (None if shown.before is None else shown.before_sha256):
            raise FileError(
                f"{path} has changed since it was shown to the user; nothing was written.",
                hint="Use `read` on it again, then repeat the change against what it says now.",
            )

    def chosen(self, path: str) -> FileChange | None:
        """What the person made of the file; None where they took it as it was shown.

        Its `after` is None for a file that is left alone, also for one that was to be removed.
        """
        return self._chosen.get(path)


def _by_name(
    changes: Sequence[FileChange], real_of: Callable[[str], str]
) -> Mapping[str, FileChange]:
    by_name: dict[str, FileChange] = {}
    for each in changes:
        by_name[each.path] = each
        by_name.setdefault(real_of(each.path), each)
    return by_name
