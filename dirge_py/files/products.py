"""Files that programs leave behind when a project is built or tested, ignored or not.

A run of the tests rewrites them, and says no less about the files that people and models write.
"""

_FOLDERS = frozenset(
    (
        "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox",
        ".nyc_output", ".gradle", ".cache", "htmlcov",
    )
)  # fmt: skip
_ENDINGS = (".pyc", ".pyo", ".o", ".obj", ".class", ".gcda", ".gcno")
_NAMES = (".coverage", "coverage.xml")


def is_product(path: str) -> bool:
    """Whether a file with this relative path is known, by its name, to be such a one."""
    folders, _, name = path.rpartition("/")
    return (
        name.endswith(_ENDINGS)
        or name.startswith(_NAMES)
        or not _FOLDERS.isdisjoint(folders.split("/"))
    )
