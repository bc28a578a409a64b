"""What a run loads or makes sooner or later; importing this does both. See `tests.apart`."""

import ctypes
import gc
import pkgutil
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from dirge_py.processes.environment import block_inspection
from dirge_py.processes.process_tree import adopt_orphans
from tests.frontend.print.product import Product, Service
from tests.providers.server import Say

PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
LOADED = ("cli", "extensions", "frontend", "plan", "providers", "sdk", "slash", "tools", "ui")

for package in (import_module(f"dirge_py.{name}") for name in LOADED):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        import_module(module.name)
for name in ("anyio._backends._asyncio", "certifi", "dirge_py.testing", "httpcore"):
    import_module(name)
# Much is made when it is first used, schemas and constructors above all.
with tempfile.TemporaryDirectory() as base, Service() as service:
    product = Product(Path(base), service)
    for wire in ("openai", "anthropic"):
        product.configure(wire=wire)
        product.will(Say(calls=[("read", {"path": "a"}), ("bash", {"command": ":"})]), Say())
        product.run("-p", "--yolo", "x")
# A run asks the kernel for these once in its process. Its forks ask for themselves.
adopt_orphans.cache_clear()
block_inspection.cache_clear()
if sys.platform == "linux":
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
# What is here stays, and no fork has to look through it for garbage.
gc.collect()
gc.freeze()
