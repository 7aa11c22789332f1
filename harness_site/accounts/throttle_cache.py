"""Cache backend for throttling, in a database table that all web processes share.

Django's database cache stores pickles: whoever can write a row runs code in every process that reads it, and agents
write to the same database. Here values are JSON, and invalid JSON counts as missing.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import count
from typing import Any, Final

from django.core.cache.backends.base import DEFAULT_TIMEOUT, BaseCache
from django.db import IntegrityError, transaction

from checkpoints.db import clock
from harness_site.accounts.models import ThrottleEntry

_NEVER: Final = datetime(9999, 1, 1, tzinfo=UTC)
#: Number of writes of a process between deletions of expired rows.
_CLEAN_EVERY: Final = 50
_writes = count(1)


class ThrottleCache(BaseCache):
    """Cache backend for values that JSON can hold: numbers, text, lists of them."""

    def __init__(self, location: str, params: dict[str, Any]) -> None:
        super().__init__(params)

    def get(self, key: Any, default: Any = None, version: int | None = None) -> Any:
        entries = ThrottleEntry.objects.filter(cache_key=self._build_entry_key(key, version), expires__gt=clock.now())
        value = entries.values_list("value", flat=True).first()
        if value is None:
            return default
        try:
            return json.loads(value)
        except ValueError:
            return default

    def set(self, key: Any, value: Any, timeout: float | None = DEFAULT_TIMEOUT, version: int | None = None) -> None:
        self._delete_expired_occasionally()
        ThrottleEntry.objects.bulk_create(
            [self._build_entry(key, value, timeout, version)],
            update_conflicts=True,
            unique_fields=["cache_key"],
            update_fields=["value", "expires"],
        )

    def add(self, key: Any, value: Any, timeout: float | None = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        """Store a value if the key is missing; return True if it was stored. Of concurrent calls one succeeds."""
        self._delete_expired_occasionally()
        entry = self._build_entry(key, value, timeout, version)
        try:
            with transaction.atomic():
                ThrottleEntry.objects.filter(cache_key=entry.cache_key, expires__lte=clock.now()).delete()
                entry.save(force_insert=True)
        except IntegrityError:
            return False
        return True

    def touch(self, key: Any, timeout: float | None = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        entries = ThrottleEntry.objects.filter(cache_key=self._build_entry_key(key, version), expires__gt=clock.now())
        return entries.update(expires=self._compute_expiry(timeout)) > 0

    def delete(self, key: Any, version: int | None = None) -> bool:
        return ThrottleEntry.objects.filter(cache_key=self._build_entry_key(key, version)).delete()[0] > 0

    def clear(self) -> None:
        ThrottleEntry.objects.all().delete()

    def _build_entry_key(self, key: Any, version: int | None) -> str:
        return self.make_and_validate_key(key, version)

    def _build_entry(self, key: Any, value: Any, timeout: float | None, version: int | None) -> ThrottleEntry:
        return ThrottleEntry(
            cache_key=self._build_entry_key(key, version),
            value=json.dumps(value),
            expires=self._compute_expiry(timeout),
        )

    def _compute_expiry(self, timeout: float | None) -> datetime:
        seconds = self.get_backend_timeout(timeout)
        return _NEVER if seconds is None else datetime.fromtimestamp(seconds, UTC)

    def _delete_expired_occasionally(self) -> None:
        if next(_writes) % _CLEAN_EVERY == 0:
            ThrottleEntry.objects.filter(expires__lte=clock.now()).delete()
