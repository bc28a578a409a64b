"""httpx without its command line.

`import httpx` loads its command-line program as well when click is installed, and with it rich and
pygments: 40 ms and 5 MB for every headless run. httpx is prepared to be without that program, so it
is told that it is, for the moment of the import only.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx as httpx
else:

    def _imported() -> Any:
        if "httpx" in sys.modules:
            return sys.modules["httpx"]
        # None in sys.modules makes an import raise ModuleNotFoundError.
        sys.modules["httpx._main"] = None
        try:
            return importlib.import_module("httpx")
        finally:
            del sys.modules["httpx._main"]

    httpx = _imported()
