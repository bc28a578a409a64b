from dirge_py.wiring.authorize import SYSTEM_FOLDERS, outside


def test_programs_are_looked_for_outside_the_workspace_only() -> None:
    path = "/w/bin:relative:/opt/tools:/w"

    assert outside(path, ["/w"]) == "/opt/tools"


def test_a_workspace_that_holds_every_program_leaves_the_systems_own() -> None:
    assert outside("/usr/bin:/bin", ["/"]) == ":".join(SYSTEM_FOLDERS)
