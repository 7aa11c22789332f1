"""Read keys from the configuration: a Django setting, an environment variable, or a file that a variable names."""

from __future__ import annotations

import os
import re
from pathlib import Path

from django.conf import settings

from checkpoints.exceptions import SealError


def read_keys_from_setting_or_file(name: str, invalid: type[SealError]) -> list[str]:
    """Read the words of a setting, which commas or white space separate.

    The Django setting `name` counts first, which may be a list; then the environment variable of that name, or the
    file that the variable `name_FILE` names.

    Args:
        name: Name of the setting.
        invalid: Class of the error, which gets the reason.

    Returns:
        The words; none if nothing is configured.
    """
    return [word for word in re.split(r"[\s,]+", _read_setting_or_file_text(name, invalid)) if word]


def _read_setting_or_file_text(name: str, invalid: type[SealError]) -> str:
    configured = getattr(settings, name, None)
    if configured is not None:
        return configured if isinstance(configured, str) else " ".join(configured)
    text, path = os.environ.get(name), os.environ.get(f"{name}_FILE")
    if path is None:
        return text or ""
    if text:
        raise invalid(f"{name} and {name}_FILE are both set")
    try:
        content = Path(path).read_text(encoding="ascii")
    except OSError as error:
        raise invalid(f"the file of {name}_FILE, {path}, cannot be read ({error.strerror})") from error
    except UnicodeError as error:
        raise invalid(f"the file of {name}_FILE, {path}, contains other characters than hexadecimal digits") from error
    if not content.strip():
        raise invalid(f"the file of {name}_FILE, {path}, is empty")
    return content
