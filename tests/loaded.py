"""What a run without a screen loads sooner or later; importing this loads it. See `tests.apart`."""

import pkgutil
from importlib import import_module

import tests.apart  # noqa: F401 - the way in

LOADED = ("cli", "headless", "providers", "sdk", "slash", "tools", "wiring")

for package in (import_module(f"dirge_py.{name}") for name in LOADED):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if module.name != "dirge_py.cli.screen":
            import_module(module.name)
for name in ("anyio._backends._asyncio", "certifi", "dirge_py.testing", "httpcore"):
    import_module(name)
