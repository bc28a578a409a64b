"""Project files that can act (settings, plugins, hooks …), their common hash, and trust records."""

from dataclasses import asdict, replace
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirge_py.permission.project_trust import (
    ProjectTrust,
    TrustRecord,
    acting_kind,
    apply_record,
    files_digest,
    may_hold_acting_files,
    record_from,
    why_untrustable,
)
from dirge_py.types.questions import ActingFile

AT = {"device": 1, "inode": 2}
HASHES = st.sampled_from([digit * 64 for digit in "0123"])
FILES = st.dictionaries(st.text(max_size=4), HASHES, max_size=4)


def files_with(**hashes: str) -> list[ActingFile]:
    return [
        ActingFile(path=f".dirge/plugins/{name}.py", kind="plugin", size=1, sha256=sha256)
        for name, sha256 in hashes.items()
    ]


def project_with(*files: ActingFile) -> ProjectTrust:
    return ProjectTrust(root=Path("/w"), files=files, **AT)


def record(*files: ActingFile) -> TrustRecord:
    return TrustRecord(**AT, accepted={file.path: file.sha256 for file in files})


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (".dirge/config.toml", "settings"),
        (".dirge/plugins/a.py", "plugin"),
        (".dirge/plugins/lib/deep/a.so", "plugin"),
        (".dirge/prompts/a.md", "prompt"),
        (".dirge/agents/a.md", "agent"),
        (".dirge/skills/x/run.sh", "skill"),
        (".dirge/themes/a.toml", "theme"),
        (".dirge/mcp.json", "mcp"),
        (".dirge/hooks/before.sh", "hook"),
        (".dirge/notes.txt", ""),
        (".dirge/prompts/a.txt", ""),
        (".dirge/prompts/deep/a.md", ""),
        (".dirge/CONFIG.toml", ""),
        (".dirge/plugins", ""),
    ],
)
def test_acting_kind_of_path_matches_table(path: str, kind: str) -> None:
    assert acting_kind(path) == kind


def test_may_hold_acting_files_is_true_only_for_folders_of_acting_files() -> None:
    looked = [".dirge/plugins", ".dirge/plugins/lib", ".dirge/prompts", ".dirge/skills/x/y"]
    assert [path for path in looked if not may_hold_acting_files(path)] == []
    passed = [".dirge/output", ".dirge/prompts/deep", ".dirge/plugin"]
    assert [path for path in passed if may_hold_acting_files(path)] == []


@given(FILES, FILES)
def test_files_digest_is_equal_only_for_equal_sets_of_files(
    some: dict[str, str], others: dict[str, str]
) -> None:
    backwards = reversed(list(some.items()))
    assert files_digest(some.items()) == files_digest(backwards)
    assert (files_digest(some.items()) == files_digest(others.items())) == (some == others)


def test_changed_and_new_files_are_offered_and_other_files_stay_trusted() -> None:
    first, second = files_with(a="1" * 64, b="2" * 64)
    [third] = files_with(c="3" * 64)
    changed = replace(second, sha256="4" * 64)

    project = apply_record(project_with(first, changed, third), record(first, second))

    assert [file.state for file in project.files] == ["trusted", "changed", "new"]
    assert project.offer is not None
    assert [file.path for file in project.offer.files] == [changed.path, third.path]


@pytest.mark.parametrize("other", [{"device": 1, "inode": 3}, {"device": 9, "inode": 2}])
def test_another_folder_at_same_path_is_not_trusted(other: dict[str, int]) -> None:
    files = files_with(a="1" * 64)
    project = apply_record(replace(project_with(*files), **other), record(*files))
    assert project.files[0].state == "new"
    assert project.offer is not None


def test_declined_file_is_offered_again_only_after_it_changes() -> None:
    [file] = files_with(a="1" * 64)
    declined = TrustRecord(**AT, declined={file.path: file.sha256})

    assert apply_record(project_with(file), declined).offer is None
    changed = project_with(replace(file, sha256="2" * 64))
    assert apply_record(changed, declined).offer is not None
    assert apply_record(changed, None).offer is not None


@given(FILES, FILES, st.integers(), st.integers())
def test_trust_record_survives_encoding_and_decoding(
    accepted: dict[str, str], declined: dict[str, str], device: int, inode: int
) -> None:
    written = TrustRecord(device=device, inode=inode, accepted=accepted, declined=declined)
    assert record_from(asdict(written)) == written


@pytest.mark.parametrize(
    "value", [None, [], {}, {"device": 1}, {**asdict(TrustRecord()), "accepted": {"a": 1}}]
)
def test_invalid_trust_record_raises_error(value: object) -> None:
    with pytest.raises(ValueError, match="not a trust record"):
        record_from(value)


@pytest.mark.parametrize(
    ("root", "is_never"),
    [("/", True), ("/home/me", True), ("/home", True), ("/home/me/x", False), ("/srv/x", False)],
)
def test_home_folder_and_its_parents_cannot_be_trusted(root: str, is_never: bool) -> None:
    assert bool(why_untrustable(PurePosixPath(root), PurePosixPath("/home/me"))) == is_never
