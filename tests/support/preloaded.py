"""Imports and builds what a run needs; `tests.support.forked_process` forks from here."""

import ctypes
import gc
import pkgutil
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from dirge_py.processes.environment import block_inspection
from dirge_py.processes.process_tree import adopt_orphans
from tests.support.fake_service import ModelReply
from tests.support.product import Product, Service

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
        product.will(
            ModelReply(calls=[("read", {"path": "a"}), ("bash", {"command": ":"})]), ModelReply()
        )
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
