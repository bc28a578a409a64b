import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


def test_testing_page_has_an_example():
    assert EXAMPLES


@pytest.mark.parametrize("source", EXAMPLES, ids=map(str, range(len(EXAMPLES))))
def test_example_of_the_testing_page_runs(source, tmp_path):
    result = subprocess.run([sys.executable, "-c", source], cwd=tmp_path, capture_output=True)
    assert (result.returncode, result.stderr.decode()) == (0, "")
