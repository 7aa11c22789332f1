"""Settings from environment variables. `NAME_FILE` holds the path of a file with the value of `NAME`."""

import os
import secrets
import sys
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Final, TypeVar

from django.core.exceptions import ImproperlyConfigured
from platformdirs import user_data_path

from checkpoints.exceptions import InvalidDatabaseUrl

#: Folder above this package; in a source checkout it also holds `templates` and `static`. In a wheel these lie inside
#: the package, where Django's app loaders find them.
BASE_DIR = Path(__file__).resolve().parent.parent
IS_CHECKOUT = (BASE_DIR / "manage.py").is_file()

T = TypeVar("T")

#: Environment variables that the site, the library and their programs read, without the prefix HARNESS_. Each may have
#: the ending _FILE.
_VARIABLES: Final = frozenset(
    {
        "ADDRESS",
        "ALLOWED_HOSTS",
        "ANONYMOUS_BODY_KILOBYTES",
        "API_REQUESTS_PER_MINUTE",
        "BEHIND_PROXY",
        "BODY_MEGABYTES",
        "BODY_SECONDS",
        "CONNECTIONS",
        "DATABASE_URL",
        "DEBUG",
        "DECISION_SIGNING_KEY",
        "DECISION_VERIFY_KEYS",
        "EMAIL_FROM",
        "EMAIL_URL",
        "EVIDENCE_MEGABYTES",
        "GRACE_SECONDS",
        "HEADER_SECONDS",
        "HSTS_SECONDS",
        "HSTS_SUBDOMAINS",
        "HTTPS",
        "IDLE_SECONDS",
        "LOG_LEVEL",
        "MINIMUM_RATE",
        "OIDC_CLIENT_ID",
        "OIDC_CLIENT_SECRET",
        "OIDC_NAME",
        "OIDC_ORIGINS",
        "OIDC_URL",
        "OLD_SECRET_KEYS",
        "SEAL_KEY",
        "SEAL_REQUIRED",
        "SECRET_KEY",
        "SESSION",
        "STATE_DIR",
        "TOKEN",
        "TRUSTED_ORIGINS",
        "URL",
        "WEBHOOK_HOSTS",
        "WITNESS",
        "WITNESS_SYNC",
        "WRITE_SECONDS",
    }
)
_PREFIX: Final = "HARNESS_"
#: Likeness of two names from which one is taken for a misspelling of the other. It is larger than in
#: `harness_site.core.similar_words`: names of settings have long parts in common, and unknown ones may be of others.
_LIKENESS: Final = 0.82

#: Wrong settings that were found so far.
_problems: list[str] = []
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_FLAGS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def read_text_setting(name: str, default: str = "") -> str:
    """Return the value of `name`, else the content of the file that `name_FILE` points to, else `default`.

    Of the two, one that is empty is not set: files for containers often pass all variables on.
    """
    value = os.environ.get(name)
    path = os.environ.get(f"{name}_FILE")
    if value and path:
        raise ImproperlyConfigured(f"Set {name} or {name}_FILE, not both.")
    if path:
        return _read_setting_file_or_raise(f"{name}_FILE", path)
    return default if value is None else value


def read_or_collect_problem(read: Callable[[], T], fallback: T) -> T:
    """Return what `read` returns. A wrong setting is kept for `raise_collected_problems`, and `fallback` is returned.

    So an operator is told of all wrong settings at once.
    """
    try:
        return read()
    except ImproperlyConfigured as error:
        _problems.append(str(error))
    except InvalidDatabaseUrl as error:
        _problems.append(f"HARNESS_DATABASE_URL: {error}")
    return fallback


def read_text_or_collect_problem(name: str, default: str = "") -> str:
    """Return what `read_text_setting` returns, or `default` for a wrong setting, which is kept for later."""
    return read_or_collect_problem(lambda: read_text_setting(name, default), default)


def read_boolean_or_collect_problem(name: str, *, default: bool) -> bool:
    """Return what `read_boolean_setting` returns, or `default` for a wrong setting, which is kept for later."""
    return read_or_collect_problem(lambda: read_boolean_setting(name, default=default), default)


def read_list_or_collect_problem(name: str, default: str = "") -> list[str]:
    """Return what `read_list_setting` returns, or an empty list for a wrong setting, which is kept for later."""
    nothing: list[str] = []
    return read_or_collect_problem(lambda: read_list_setting(name, default), nothing)


def read_non_negative_integer_or_collect_problem(name: str, default: int) -> int:
    """Return what `read_non_negative_integer_setting` returns, or `default` for a wrong setting, which is kept."""
    return read_or_collect_problem(lambda: read_non_negative_integer_setting(name, default), default)


def read_positive_integer_or_collect_problem(name: str, default: int) -> int:
    """Return what `read_positive_integer_setting` returns, or `default` for a wrong setting, which is kept."""
    return read_or_collect_problem(lambda: read_positive_integer_setting(name, default), default)


def raise_collected_problems() -> None:
    """Raise `ImproperlyConfigured` with a line for each problem that was collected."""
    if _problems:
        lines = "\n".join(_problems)
        _problems.clear()
        raise ImproperlyConfigured(lines)


def find_misspelt_variables(names: Iterable[str]) -> dict[str, str]:
    """Map each name that nothing reads, and that is like one that is read, to that one.

    Other unknown names are left out: they may belong to programs of the operator.
    """
    misspelt = {}
    for name in sorted(names):
        word = name.removeprefix(_PREFIX)
        ending = "_FILE" if word.endswith("_FILE") else ""
        word = word.removesuffix("_FILE")
        if not name.startswith(_PREFIX) or word in _VARIABLES:
            continue
        if matches := get_close_matches(word, _VARIABLES, n=1, cutoff=_LIKENESS):
            misspelt[name] = f"{_PREFIX}{matches[0]}{ending}"
    return misspelt


def read_boolean_setting(name: str, *, default: bool) -> bool:
    """Return a flag: 1, true, yes, on, or their opposites. Raises `ImproperlyConfigured` for anything else."""
    value = read_text_setting(name).strip().lower()
    if not value:
        return default
    if value not in _FLAGS:
        raise ImproperlyConfigured(f"{name} is {value!r}: use 1 or 0.")
    return _FLAGS[value]


def read_list_setting(name: str, default: str = "") -> list[str]:
    """Return a comma-separated list without blanks and empty parts."""
    return [word.strip() for word in read_text_setting(name, default).split(",") if word.strip()]


def read_non_negative_integer_setting(name: str, default: int) -> int:
    """Return a whole number of zero or more. Raises `ImproperlyConfigured`."""
    return _read_integer_setting(name, default, least=0, least_in_words="zero")


def read_positive_integer_setting(name: str, default: int) -> int:
    """Return a whole number of one or more. Raises `ImproperlyConfigured`."""
    return _read_integer_setting(name, default, least=1, least_in_words="one")


def read_log_level() -> str:
    """Return the name of the lowest level of log entries that are written. Raises `ImproperlyConfigured`."""
    level = read_text_setting("HARNESS_LOG_LEVEL", "WARNING").strip().upper()
    if level not in _LEVELS:
        raise ImproperlyConfigured(f"HARNESS_LOG_LEVEL is {level!r}: use one of {', '.join(_LEVELS)}.")
    return level


def get_state_dir() -> Path:
    """Return the folder for persistent state.

    It is `HARNESS_STATE_DIR`, else `var` in a source checkout, else the user's data folder of this platform.

    Raises `ImproperlyConfigured` for a relative path, which would depend on the current directory of each process.
    """
    configured_path = read_text_setting("HARNESS_STATE_DIR").strip()
    if not configured_path:
        return BASE_DIR / "var" if IS_CHECKOUT else user_data_path("harness", appauthor=False)
    path = Path(configured_path).expanduser()
    if not path.is_absolute():
        raise ImproperlyConfigured(f"HARNESS_STATE_DIR is {configured_path!r}: give an absolute path.")
    return path


def create_state_dir_if_missing(path: Path) -> None:
    """Create a folder that only its owner may enter, unless it exists: its database has what customers say.

    An installation from a wheel is told on the standard error which folder that is. Raises `ImproperlyConfigured`.
    """
    if path.exists():
        return
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ImproperlyConfigured(
            f"The state folder {str(path)!r} cannot be created: {error.strerror}. Set HARNESS_STATE_DIR to a folder "
            "that this user may write to. A site with a PostgreSQL HARNESS_DATABASE_URL and a secret key needs none."
        ) from error
    if not IS_CHECKOUT:
        sys.stderr.write(f"harness: keys and, without HARNESS_DATABASE_URL, the database are kept in {path}\n")


def load_or_create_secret(path: Path) -> str:
    """Return the random key in a file; create the file, readable for its owner only, if it does not exist.

    Raises `ImproperlyConfigured` if the file cannot be read or created.
    """
    create_state_dir_if_missing(path.parent)
    try:
        if not path.exists():
            _create_file_once(path, secrets.token_urlsafe(48))
        return path.read_text().strip()
    except OSError as error:
        raise ImproperlyConfigured(
            f"The secret key {str(path)!r} cannot be read or created: {error.strerror}. Run this command as the owner "
            "of the file, or set HARNESS_SECRET_KEY_FILE to one that this user may read."
        ) from error


def _create_file_once(path: Path, value: str) -> None:
    # Written to a temporary file and linked, so that two processes starting together agree on one complete key.
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


def _read_integer_setting(name: str, default: int, *, least: int, least_in_words: str) -> int:
    value = read_text_setting(name).strip()
    if not value:
        return default
    if not value.isdecimal() or int(value) < least:
        raise ImproperlyConfigured(f"{name} is {value!r}: use a whole number of {least_in_words} or more.")
    return int(value)


def _read_setting_file_or_raise(name: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ImproperlyConfigured(f"{name} names {path!r}, which cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ImproperlyConfigured(
            f"{name} names {path!r}, which is no text in UTF-8. Write the value of the setting as text."
        ) from error
