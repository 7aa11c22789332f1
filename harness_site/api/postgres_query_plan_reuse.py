"""Plans of statements on PostgreSQL: the writes of agents reuse theirs, everything else is planned for its values.

The site's connections plan each statement for its values, as `settings.py` says: pages need that. A write of an agent
has one statement that finds each row by its key, for which planning takes longer than the plan could gain. A
connection changes its mode only when it goes from one kind of work to the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Final
from weakref import WeakSet

from django.db import Error
from django.db.backends.base.base import BaseDatabaseWrapper

from checkpoints.db.connection import has_pool

#: Statement after which a connection reuses its plans, if it plans for values now: a pooler between this process and
#: the server ignores that option, and would give a changed connection to somebody else. A plan that was made for a
#: small table would read all of it, and go on to do so when it has grown, unless indexes are preferred.
_REUSE: Final = (
    "SELECT set_config('plan_cache_mode', 'auto', false), set_config('enable_seqscan', 'off', false) "
    "WHERE current_setting('plan_cache_mode') = 'force_custom_plan'"
)
_RESET: Final = "RESET plan_cache_mode; RESET enable_seqscan"

_wants_reuse: Final[ContextVar[bool]] = ContextVar("plans are reused", default=False)
#: Connections of the pools of this process whose plans are reused.
_reusing: Final[WeakSet[Any]] = WeakSet()


@contextmanager
def reuse_query_plans_in_context() -> Iterator[None]:
    """Let a connection that is taken from its pool in this context reuse the plans of its prepared statements."""
    token = _wants_reuse.set(True)
    try:
        yield
    finally:
        _wants_reuse.reset(token)


def set_plan_mode_of_pooled_connection(sender: object, connection: BaseDatabaseWrapper, **options: object) -> None:
    """Set the mode of a connection that has just been taken from its pool, if it has another one.

    One that was lost says so at its next statement.
    """
    if connection.vendor != "postgresql" or not has_pool(connection):
        return
    driver_connection: Any = connection.connection
    wants_reuse = _wants_reuse.get()
    if wants_reuse == (driver_connection in _reusing):
        return
    with suppress(Error), connection.wrap_database_errors:
        driver_connection.execute(_REUSE if wants_reuse else _RESET, prepare=False)
        (_reusing.add if wants_reuse else _reusing.discard)(driver_connection)
