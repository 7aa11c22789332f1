"""Reading settings from the environment. `NAME_FILE` holds the path of a file with the value of `NAME`."""

import os
import secrets
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured
from platformdirs import user_data_path

#: The folder above this package; in a checkout of the sources it also holds `templates` and `static`. In a wheel
#: these lie inside the package, where Django's app loaders find them.
BASE_DIR = Path(__file__).resolve().parent.parent
IS_CHECKOUT = (BASE_DIR / "manage.py").is_file()

_FLAGS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def text(name: str, default: str = "") -> str:
    """The value of `name`, else the content of the file that `name_FILE` points to, else `default`."""
    value = os.environ.get(name)
    path = os.environ.get(f"{name}_FILE")
    if value is not None and path is not None:
        raise ImproperlyConfigured(f"Set {name} or {name}_FILE, not both.")
    if path is not None:
        return _content(f"{name}_FILE", path)
    return default if value is None else value


def flag(name: str, *, default: bool) -> bool:
    """1, true, yes, on, or their opposites; anything else is an error."""
    value = text(name).strip().lower()
    if not value:
        return default
    if value not in _FLAGS:
        raise ImproperlyConfigured(f"{name} is {value!r}: use 1 or 0.")
    return _FLAGS[value]


def words(name: str, default: str = "") -> list[str]:
    """A comma-separated list, without blanks and empty parts."""
    return [word.strip() for word in text(name, default).split(",") if word.strip()]


def number(name: str, default: int) -> int:
    """A whole number of zero or more."""
    value = text(name).strip()
    if value and not value.isdecimal():
        raise ImproperlyConfigured(f"{name} is {value!r}: use a whole number.")
    return int(value) if value else default


def positive(name: str, default: int) -> int:
    """Return a whole number of one or more."""
    value = number(name, default)
    if value < 1:
        raise ImproperlyConfigured(f"{name} is {value}: use a whole number of one or more.")
    return value


def state_dir() -> Path:
    """The folder for what has to outlive the process.

    It is `HARNESS_STATE_DIR`, else `var` in a checkout of the sources, else the user's data folder of this platform.

    Raises `ImproperlyConfigured` for a relative path: it would be another folder wherever a process is started.
    """
    named = text("HARNESS_STATE_DIR").strip()
    if not named:
        return BASE_DIR / "var" if IS_CHECKOUT else user_data_path("harness", appauthor=False)
    path = Path(named).expanduser()
    if not path.is_absolute():
        raise ImproperlyConfigured(f"HARNESS_STATE_DIR is {named!r}: give an absolute path.")
    return path


def kept_secret(path: Path) -> str:
    """A random key that is made once and kept in a file only its owner may read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        _create_once(path, secrets.token_urlsafe(48))
    return path.read_text().strip()


def _create_once(path: Path, value: str) -> None:
    # Written aside and linked, so that two processes starting together agree on one complete key.
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(value)
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def _content(name: str, path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError as error:
        raise ImproperlyConfigured(f"{name} names {path!r}, which cannot be read: {error.strerror}.") from error
