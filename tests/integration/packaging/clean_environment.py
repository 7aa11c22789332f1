"""Wheel of the library and the site, and clean environments outside the checkout to install it into."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from email import message_from_bytes
from importlib.metadata import distribution
from pathlib import Path
from zipfile import ZipFile

from packaging.requirements import Requirement

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


def link_dependencies(programs: Path, wheel: Path, extra: str) -> None:
    """Give an environment what an extra of the wheel needs, and nothing else: links to the packages of this one.

    `pip` takes twenty seconds of processor time to install them.
    """
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    target = Path(run(programs / "python", "-c", code, cwd=ROOT).strip())
    (metadata,) = (name for name in ZipFile(wheel).namelist() if name.endswith(".dist-info/METADATA"))
    wanted = message_from_bytes(ZipFile(wheel).read(metadata)).get_all("Requires-Dist") or []
    waiting, linked = [(Requirement(each), {extra}) for each in wanted], set[tuple[str, str]]()
    while waiting:
        requirement, extras = waiting.pop()
        if requirement.marker and not any(requirement.marker.evaluate({"extra": each}) for each in {"", *extras}):
            continue
        needed = distribution(requirement.name)
        assert requirement.specifier.contains(needed.version, prereleases=True), requirement
        for each in {"", *requirement.extras} - {known for name, known in linked if name == requirement.name}:
            linked.add((requirement.name, each))
            waiting += [(Requirement(line), {each}) for line in needed.requires or ()]
        for name in {file.parts[0] for file in needed.files or ()} - {"..", "__pycache__"}:
            if not (target / name).exists():
                (target / name).symlink_to(str(needed.locate_file(name)))
