"""Settings from environment variables. `NAME_FILE` holds the path of a file with the value of `NAME`."""

import os
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Final, TypeVar

from django.core.exceptions import ImproperlyConfigured

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
