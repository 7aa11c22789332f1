"""Secrets that the next page shows once: they wait, encrypted, in the user session across the redirect after a form.

A page that answers the form itself would submit it again when it is reloaded.
"""

from __future__ import annotations

import json
from typing import Final

from django.http import HttpRequest

from harness_site.accounts import encrypt_stored_secrets

_PURPOSE: Final = "once"


def store_secret_for_next_page(request: HttpRequest, key: str, values: dict[str, str]) -> None:
    """Store a secret and what its page says about it, until `pop_secret_for_page` is called with the same key."""
    request.session[key] = encrypt_stored_secrets.encrypt_field(json.dumps(values), purpose=_PURPOSE)


def pop_secret_for_page(request: HttpRequest, key: str) -> dict[str, str] | None:
    """Return the stored values and remove them from the user session; None if there are none."""
    encrypted: str | None = request.session.pop(key, None)
    if encrypted is None:
        return None
    values: dict[str, str] = json.loads(encrypt_stored_secrets.decrypt_field(encrypted, purpose=_PURPOSE))
    return values
