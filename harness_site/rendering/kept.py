"""HTML that was made before, found again by a digest of everything it shows.

The key holds all that goes in: what is shown, under whose masking rules, on which day (times of today are written
without their date), by which version of the templates and of this package. So nothing is ever out of date, and nobody
sees what was made for others.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Final

from django.conf import settings
from django.core.cache import caches
from django.utils.safestring import SafeString, mark_safe

from checkpoints import clock
from harness_site.rendering import masking

#: Larger HTML is made anew each time.
_LARGEST: Final = 200_000
_PLACES: Final = ("templates/sessions/parts", "harness_site/rendering", "harness_site/templatetags")


def kept(shown: object, make: Callable[[], SafeString]) -> SafeString:
    """What `make` makes of `shown`, whose `repr` has to tell all of it."""
    told = repr((_renderer(), masking.rules_in_force(), clock.now().date(), shown))
    key = blake2b(told.encode("utf-8", "surrogatepass"), digest_size=24).hexdigest()
    store = caches["rendered"]
    found: str | None = store.get(key)
    if found is not None:
        return mark_safe(found)  # noqa: S308 - only what `make` made is kept
    html = make()
    if len(html) <= _LARGEST:
        store.set(key, str(html))
    return html


@cache
def _renderer() -> str:
    """The version of everything that makes HTML of a message."""
    base = Path(settings.BASE_DIR)
    files = [
        path for place in _PLACES for path in sorted((base / place).glob("*.*")) if path.suffix in {".html", ".py"}
    ]
    return blake2b(b"".join(path.read_bytes() for path in files), digest_size=8).hexdigest()
