"""`python -m dirge_py` is `dirge`."""

from dirge_py.entry import main

main()
