"""`dirge demo --print` as a process, on a machine without settings."""

from tests.support.product import Product


def test_demo_fixes_project_and_leaves_no_files(product: Product) -> None:
    (product.config_dir / "config.toml").unlink()

    result = product.run_apart("demo", "--print", env={"TMPDIR": str(product.base)})

    assert result.exit_code == 0, result
    assert result.stderr == ""
    assert "\x1b" not in result.stdout
    assert "--allow 'execute:python3 -m unittest'" in result.stdout
    assert "+" in result.stdout and "FAIL:" in result.stdout and "OK" in result.stdout
    assert "The tests passed." in result.stdout
    assert not product.state_dir.exists()
    assert sorted(path.name for path in product.base.iterdir()) == ["config", "home", "project"]


def test_unknown_demo_flag_is_usage_error(product: Product) -> None:
    result = product.run("demo", "--nonsense")

    assert result.exit_code == 2
    assert "`dirge demo --help`" in result.stderr


def test_demo_plan_is_verified_in_second_cycle(product: Product) -> None:
    (product.config_dir / "config.toml").unlink()

    result = product.run_apart("demo", "--plan", "--print", env={"TMPDIR": str(product.base)})

    assert result.exit_code == 0, result
    assert result.stderr == ""
    phases = [line for line in result.stdout.splitlines() if line.startswith("── ")]
    assert [line.split()[1:4:2] for line in phases] == [
        *(["explore,", "1"], ["plan,", "1"], ["implement,", "1"], ["review,", "1"]),
        *(["implement,", "2"], ["review,", "2"]),
    ]
    first, second = result.stdout.split("── implement, cycle 2")
    assert "FAILED (failures=1)" in first and "NEEDS_FIX" in first
    assert "FAILED" not in second
    assert "### Verified" in second and "### Not verified" not in second
    assert "The tests passed." in second
    assert sorted(path.name for path in product.base.iterdir()) == ["config", "home", "project"]
