"""`python -m dirge_py` is `dirge`."""

import os
import sys
from contextlib import suppress

# Unlike `dirge`, `python -m` puts the working directory first: a project could bring a `json.py`.
with suppress(FileNotFoundError):  # a working directory that is gone holds no module
    if not sys.flags.safe_path and sys.path[:1] in ([""], [os.getcwd()]):
        del sys.path[0]

from dirge_py.cli.entry import main

main()
