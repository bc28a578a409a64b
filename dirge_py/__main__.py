"""`python -m dirge_py` is `dirge`."""

import sys

from dirge_py.entry import main

sys.exit(main())
