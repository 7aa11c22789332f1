"""Versions of the frameworks that the adapters are made for."""

from __future__ import annotations

import re
from importlib import metadata

from checkpoints.exceptions import FrameworkNotSupported


def require_version(package: str, *, at_least: tuple[int, ...], below: tuple[int, ...]) -> None:
    """Require that the installed version of a framework is one that its adapter is made for.

    Args:
        package: Name of its distribution.
        at_least: First version, as major and minor number, and patch number if that matters.
        below: First version that is too new.

    Raises:
        FrameworkNotSupported: It is not installed, or has another version.
    """
    try:
        installed = metadata.version(package)
    except metadata.PackageNotFoundError:
        installed = ""
    numbers = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", installed)
    found = None if numbers is None else tuple(map(int, numbers.groups("0")))
    if found is None or not at_least <= found < below:
        wanted = f">={_format_version(at_least)},<{_format_version(below)}"
        raise FrameworkNotSupported(package, installed, wanted)


def _format_version(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
