"""HTML that was made before, found again by a digest of everything it shows.

The key holds all that goes in: what is shown, under whose masking rules, on which day (times of today are written
without their date), by which version of the templates and of this package. So nothing is ever out of date, and nobody
sees what was made for others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import cache
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex
from types import NoneType
from typing import Final, Literal, TypeAlias
from uuid import UUID

from django.conf import settings
from django.core.cache import caches
from django.db.models import Manager, Model, QuerySet
from django.utils.safestring import SafeString, mark_safe

from checkpoints import clock
from harness_site import wording
from harness_site.rendering import masking

#: Larger HTML is made anew each time.
_LARGEST: Final = 200_000
Kind: TypeAlias = Literal["ago", "due"]
_WORDS: Final = {"ago": wording.ago, "due": wording.due}
#: What no text can forge, because only this process knows it: it stands in HTML that is kept for what is said later.
MARKER: Final = f"-{token_hex(16)}-"
#: Stands around a time whose distance is said later.
_LATER: Final = f"{MARKER}time-"
_TOLD_LATER: Final = re.compile(f"{_LATER}(ago|due) ([0-9T:.+-]*?){_LATER}")
#: Most of what is shown is one of these, and their `repr` tells all of it.
_TELLING: Final = frozenset({str, int, float, bool, NoneType, datetime, UUID})
#: So begin the names of what `_require_told` refuses. Text of agents may hold them too: only then all is gone through.
_DOUBTFUL: Final = re.compile(r" object at 0x|<\w+: |<QuerySet |re\.compile\(")
_making: ContextVar[bool] = ContextVar("making_what_is_kept", default=False)
_PLACES: Final = ("templates", "harness_site/rendering", "harness_site/templatetags")


def kept(shown: object, make: Callable[[], SafeString]) -> SafeString:
    """What `make` makes of `shown`, whose `repr` has to tell all of it. Raises `TypeError` where it does not."""
    rules = masking.rules_in_force()
    named = repr(shown)
    told = f"{_renderer()} {MARKER} {clock.now():%Y-%m-%d} {rules and rules.told} {named}"
    key = blake2b(told.encode("utf-8", "surrogatepass"), digest_size=24).hexdigest()
    store = caches["rendered"]
    found: str | None = store.get(key)
    if found is not None:
        return _said(found)
    if _DOUBTFUL.search(named):
        _require_told(shown)
    making = _making.set(True)
    try:
        html = make()
    finally:
        _making.reset(making)
    if len(html) <= _LARGEST:
        store.set(key, str(html))
    return _said(html)


def _require_told(shown: object) -> None:
    """What a dataclass leaves out of its `repr` is told by another of its fields."""
    if type(shown) in _TELLING:
        return
    if is_dataclass(shown):
        for one in fields(shown):
            if one.repr:
                _require_told(getattr(shown, one.name))
    elif isinstance(shown, Mapping):
        _require_told([*shown.keys(), *shown.values()])
    elif isinstance(shown, list | tuple | set | frozenset):
        for each in shown:
            _require_told(each)
    elif isinstance(shown, Model | Manager | QuerySet | re.Pattern) or type(shown).__repr__ is object.__repr__:
        raise TypeError(f"The name of a {type(shown).__name__} does not tell what is in it. Keep a dataclass.")


def since_or_until(moment: datetime, kind: Kind) -> str:
    """How long ago something was, or when it is due. In what is kept it is said anew each time that is shown."""
    if _making.get():
        return f"{_LATER}{kind} {moment.isoformat()}{_LATER}"
    return _WORDS[kind](moment, clock.now())


def _said(html: str) -> SafeString:
    if _LATER in html:
        html = _TOLD_LATER.sub(lambda found: since_or_until(datetime.fromisoformat(found[2]), found[1]), html)  # type: ignore[arg-type]
    return mark_safe(html)  # noqa: S308 - only what `make` made is kept


@cache
def _renderer() -> str:
    """The version of everything that makes HTML."""
    base = Path(settings.BASE_DIR)
    files = [
        path for place in _PLACES for path in sorted((base / place).rglob("*.*")) if path.suffix in {".html", ".py"}
    ]
    return blake2b(b"".join(path.read_bytes() for path in files), digest_size=8).hexdigest()
