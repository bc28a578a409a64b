"""`dirge demo --print`: the whole program, on a machine where nothing is set up."""

from tests.frontend.print.product import Product


def test_the_demo_mends_a_project_and_leaves_nothing(product: Product) -> None:
    (product.config_dir / "config.toml").unlink()

    ran = product.run_apart("demo", "--print", env={"TMPDIR": str(product.base)})

    assert ran.exit_code == 0, ran
    assert ran.stderr == ""
    assert "\x1b" not in ran.stdout
    assert "--allow 'execute:python3 -m unittest'" in ran.stdout
    assert "+" in ran.stdout and "FAIL:" in ran.stdout and "OK" in ran.stdout
    assert "The tests passed." in ran.stdout
    assert not product.state_dir.exists()
    assert sorted(path.name for path in product.base.iterdir()) == ["config", "home", "project"]


def test_an_unknown_flag_of_the_demo_is_wrong_usage(product: Product) -> None:
    ran = product.run("demo", "--nonsense")

    assert ran.exit_code == 2
    assert "--print" in ran.stderr


def test_the_plan_of_the_demo_is_verified_in_its_second_cycle(product: Product) -> None:
    (product.config_dir / "config.toml").unlink()

    ran = product.run_apart("demo", "--plan", "--print", env={"TMPDIR": str(product.base)})

    assert ran.exit_code == 0, ran
    assert ran.stderr == ""
    phases = [line for line in ran.stdout.splitlines() if line.startswith("── ")]
    assert [line.split()[1:4:2] for line in phases] == [
        *(["explore,", "1"], ["plan,", "1"], ["implement,", "1"], ["review,", "1"]),
        *(["implement,", "2"], ["review,", "2"]),
    ]
    first, second = ran.stdout.split("── implement, cycle 2")
    assert "FAILED (failures=1)" in first and "NEEDS_FIX" in first
    assert "FAILED" not in second
    assert "### Verified" in second and "### Not verified" not in second
    assert "The tests passed." in second
    assert sorted(path.name for path in product.base.iterdir()) == ["config", "home", "project"]
