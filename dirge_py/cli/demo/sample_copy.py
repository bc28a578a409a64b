"""The bundled repository, copied to where it may be changed."""

import shutil
from pathlib import Path

SAMPLE = Path(__file__).parent / "sample"


def copy_sample(folder: Path, scenario: str) -> Path:
    """A fresh copy of a sample repository inside `folder`, with a `.git` of its own.

    The `.git` is written by hand: it only has to mark where the project ends.
    """
    project = folder / "textstats"
    shutil.copytree(SAMPLE / scenario, project, ignore=shutil.ignore_patterns("__pycache__"))
    (project / ".gitignore").write_text("__pycache__/\n", encoding="utf-8")
    git = project / ".git"
    for part in ("objects", "refs/heads"):
        (git / part).mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    (git / "config").write_text("[core]\n\trepositoryformatversion = 0\n", encoding="utf-8")
    return project
