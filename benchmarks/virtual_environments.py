"""Virtual environments of the benchmarks. This module needs nothing but the standard library.

There are two, because `langgraph-checkpoint-django` only works with an older `langgraph-checkpoint` than the current
savers.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
ENVIRONMENTS = ROOT / ".venv-bench"


def set_up_python_with_current_packages_or_exit() -> Path:
    """Return the Python of the environment with this library and the current peers; create it if needed.

    Exits the program if that fails.
    """
    try:
        return _set_up_environment_and_get_python("current", HERE / "requirements.lock")
    except subprocess.CalledProcessError as error:
        sys.exit(f"The environment of the benchmarks could not be set up.\n{error.stderr}")


def set_up_python_with_older_packages_or_reason() -> tuple[Path | None, str]:
    """Return the Python of the environment for `langgraph-checkpoint-django`, or None and the reason."""
    try:
        return _set_up_environment_and_get_python("older", HERE / "requirements-older.lock"), ""
    except subprocess.CalledProcessError as error:
        print(error.stderr, file=sys.stderr)
        return None, "its environment could not be set up"


def _set_up_environment_and_get_python(name: str, lock: Path) -> Path:
    folder = ENVIRONMENTS / name
    python, stamp = folder / "bin" / "python", folder / "installed"
    lock_digest = hashlib.sha256(lock.read_bytes() + sys.version.encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == lock_digest:
        return python
    print(f"Setting up {folder.relative_to(ROOT)} (once, about half a minute) …", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--require-hashes", "-r", str(lock)], check=True, stderr=subprocess.PIPE, text=True)
    stamp.write_text(lock_digest)
    return python
