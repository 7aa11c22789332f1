"""Secret key of the site, from the environment or from its state folder."""

from pathlib import Path
from typing import Final, cast

from django.core.exceptions import ImproperlyConfigured
from django.utils.functional import SimpleLazyObject

from harness_site import env, state_folder_and_secrets

_KEY_LETTERS: Final = 32
_MAKE_KEY: Final = 'Make one: python -c "import secrets; print(secrets.token_urlsafe(48))"'
#: Random keys of 32 hexadecimal digits have fewer different letters in one case of a million.
_KEY_DIFFERENT_LETTERS: Final = 8


def read_or_create_secret_key(folder: Path, *, is_public: bool, is_checked: bool) -> str:
    """Read HARNESS_SECRET_KEY; a site that only this machine reaches gets a key of its own, kept in `folder`.

    That key is made at its first use: a command such as `harness check` may run before the administrator sets one.

    Raises `ImproperlyConfigured` if a public site has none, or with `is_checked` one that can be guessed.
    """
    key = env.read_text_setting("HARNESS_SECRET_KEY")
    if not key and is_public:
        raise ImproperlyConfigured(
            "HARNESS_SECRET_KEY is not set. A site that others reach needs it: write it to a file, and name that file "
            f"in HARNESS_SECRET_KEY_FILE. {_MAKE_KEY}"
        )
    if key and is_checked:
        require_strong_secret_key(key)
    return key or cast(
        str, SimpleLazyObject(lambda: state_folder_and_secrets.load_or_create_secret(folder / "secret_key"))
    )


def require_strong_secret_key(key: str) -> None:
    """Refuse a key that can be guessed. Raises `ImproperlyConfigured`.

    Sessions, forms and encrypted fields depend on it, and a dictionary attack tries billions of keys a second.
    """
    if len(key) < _KEY_LETTERS or len(set(key)) < _KEY_DIFFERENT_LETTERS or key.startswith("django-insecure-"):
        raise ImproperlyConfigured(
            f"HARNESS_SECRET_KEY is too easy to guess: it takes {_KEY_LETTERS} characters or more, made at random. "
            f"{_MAKE_KEY}"
        )
