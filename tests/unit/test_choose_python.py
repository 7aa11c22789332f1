"""The script that chooses the Python of the environments."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "choose-python"


def choose(first: Path | str, system: Path | str) -> str:
    run = subprocess.run([SCRIPT, first, system], check=True, capture_output=True, text=True, timeout=60)
    return run.stdout.strip()


def write_interpreter(path: Path, optimised: str | None, usable: bool) -> Path:
    """Write a Python that was compiled with the option `optimised`, with or without the modules of environments."""
    path.write_text(
        f"#!{sys.executable}\n"
        "import sys, sysconfig\n"
        f"sysconfig.get_config_var = lambda name: {{'CONFIG_ARGS': {optimised!r}}}.get(name)\n"
        f"sys.modules.update({{}} if {usable} else {{'ensurepip': None}})\n"
        "exec(sys.argv[2])\n"
    )
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("options", "usable", "chosen"),
    [
        ("'--enable-shared' '--enable-optimizations'", True, "first"),
        ("'--enable-shared'", True, "system"),
        (None, True, "system"),
        ("'--enable-shared'", False, "first"),
    ],
    ids=["optimised", "not-optimised", "unknown", "system-without-environments"],
)
def test_python_of_the_system_replaces_one_that_was_compiled_without_optimisation(
    tmp_path: Path, options: str | None, usable: bool, chosen: str
) -> None:
    first = write_interpreter(tmp_path / "first", options, usable=True)
    system = write_interpreter(tmp_path / "system", "", usable)
    assert choose(first, system) == str(tmp_path / chosen)


def test_python3_is_chosen_where_the_system_has_none(tmp_path: Path) -> None:
    first = write_interpreter(tmp_path / "first", "", usable=True)
    assert choose(first, tmp_path / "missing") == str(first)
