"""Wheel of the library and the site, and clean environments outside the checkout to install it into."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
_PINS = re.compile(r"^[a-z0-9-]+(?:\[[a-z,]+\])?==\S+(?: ; .*?)?(?= \\$)", re.MULTILINE)


def run(*arguments: object, cwd: Path, **environment: str) -> str:
    """Run a program without the variables of this test run; return what it prints."""
    done = subprocess.run(
        [str(argument) for argument in arguments],
        cwd=cwd,
        env=clean_environment(cwd) | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def clean_environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "LANG", "LC_", "SSL_"))}
    return kept | {"PATH": os.environ["PATH"], "HOME": str(home)}


def install(wheel: Path, folder: Path, extra: str = "") -> Path:
    """Install the wheel into a new environment with the locked versions; return its folder of programs."""
    programs = create_environment(folder)
    pip_install(programs, f"harness-checkpoints{extra} @ {wheel.as_uri()}", folder=folder)
    return programs


def create_environment(folder: Path) -> Path:
    """Create an environment without any package; return its folder of programs."""
    run(sys.executable, "-m", "venv", "--without-pip", folder / "environment", cwd=folder)
    return folder / "environment" / "bin"


def pip_install(programs: Path, *arguments: str, folder: Path) -> None:
    """Install packages with the locked versions into an environment."""
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(_PINS.findall((ROOT / "requirements.lock").read_text())))
    pip = [sys.executable, "-m", "pip", "--python", programs / "python", "install", "--quiet", "--no-compile"]
    run(*pip, "--disable-pip-version-check", "--constraint", constraints, *arguments, cwd=folder)


def list_installed(programs: Path, folder: Path) -> set[str]:
    """List the names of the packages in an environment."""
    code = "from importlib.metadata import distributions; print(*(each.name for each in distributions()))"
    return {name.lower() for name in run(programs / "python", "-c", code, cwd=folder).split()}
