import subprocess
import sys

import pytest

from harness_site.serving.garbage_collection import THRESHOLD

_PROGRAM = "import gc, harness_site.{module}; print(gc.get_freeze_count(), gc.get_threshold()[0])"


@pytest.mark.parametrize("module", ["asgi", "wsgi"])
def test_a_loaded_web_process_excludes_the_modules_of_the_site_from_garbage_collection(module: str) -> None:
    finished = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(module=module)], capture_output=True, text=True, check=True
    )
    frozen, threshold = map(int, finished.stdout.split())
    assert frozen > 50_000
    assert threshold == THRESHOLD
