"""The virtual environments of the benchmarks. Needs nothing but Python itself.

Two, because `langgraph-checkpoint-django` only works with an older `langgraph-checkpoint` than the current savers do.
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


def current() -> Path:
    """The Python of the environment with this library's needs and the current peers, set up where it is not yet.

    Ends the program where that fails.
    """
    try:
        return _made("current", HERE / "requirements.lock")
    except subprocess.CalledProcessError as error:
        sys.exit(f"The environment of the benchmarks could not be set up.\n{error.stderr}")


def older() -> tuple[Path | None, str]:
    """The Python of the environment for `langgraph-checkpoint-django`; or None, and what to say of that."""
    try:
        return _made("older", HERE / "requirements-older.lock"), ""
    except subprocess.CalledProcessError as error:
        print(error.stderr, file=sys.stderr)
        return None, "its environment could not be set up"


def _made(name: str, lock: Path) -> Path:
    home = ENVIRONMENTS / name
    python, stamp = home / "bin" / "python", home / "installed"
    wanted = hashlib.sha256(lock.read_bytes() + sys.version.encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"Setting up {home.relative_to(ROOT)} (once, about half a minute) …", flush=True)
    shutil.rmtree(home, ignore_errors=True)
    venv.create(home, with_pip=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--require-hashes", "-r", str(lock)], check=True, stderr=subprocess.PIPE, text=True)
    stamp.write_text(wanted)
    return python
