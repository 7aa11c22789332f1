"""Cache of one `SyncCheckpointer` per token and client of the API.

The database has everything that a checkpointer holds: one that is evicted, or that another server process holds, is
built again.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from threading import Lock
from typing import Final

from checkpoints import SyncCheckpointer
from checkpoints.constants import LEASE_SECONDS
from checkpoints.database_backend.database_client_backend import DatabaseBackend
from checkpoints.process_identity_and_liveness import ProcessIdentity
from checkpoints.store.database_client_state import Store
from checkpoints.sync_client import build_client_of_backend
from harness_site.accounts.models import ApiToken

#: Number of clients whose state is kept in memory.
MAX_CLIENTS: Final = 2_000

_lock = Lock()
_clients: OrderedDict[str, SyncCheckpointer] = OrderedDict()


def get_or_create_checkpointer(token: ApiToken, client: str) -> SyncCheckpointer:
    """Return the checkpointer of a client. Clients of one token with different names own sessions separately."""
    name = hashlib.blake2b(f"{token.pk} {client}".encode(), digest_size=16).hexdigest()
    with _lock:
        checkpointer = _clients.get(name)
        if checkpointer is None:
            process = ProcessIdentity(f"token {token.name}"[:255], "", 0, "")
            store = Store(
                workspace=token.workspace.slug, lease_seconds=LEASE_SECONDS, remote_process=process, token=name
            )
            checkpointer = _clients[name] = build_client_of_backend(DatabaseBackend(store))
        _clients.move_to_end(name)
        while len(_clients) > MAX_CLIENTS:
            _clients.popitem(last=False)
    return checkpointer


def clear_client_cache() -> None:
    """Forget all clients, as the end of the process does."""
    with _lock:
        _clients.clear()
