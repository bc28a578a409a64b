"""What a run loads sooner or later; importing this loads it. See `tests.apart`."""

import gc
import pkgutil
from importlib import import_module

import tests.apart  # noqa: F401 - the way in

LOADED = ("cli", "headless", "providers", "sdk", "slash", "tools", "ui", "wiring")

for package in (import_module(f"dirge_py.{name}") for name in LOADED):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        import_module(module.name)
for name in ("anyio._backends._asyncio", "certifi", "dirge_py.testing", "httpcore"):
    import_module(name)
# What is here stays, and no fork has to look through it for garbage.
gc.collect()
gc.freeze()
