"""Folder for the persistent state of the site, and files in it that hold a random secret."""

import os
import secrets
import sys
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured
from platformdirs import user_data_path

from harness_site.env import BASE_DIR, IS_CHECKOUT, read_text_setting


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
