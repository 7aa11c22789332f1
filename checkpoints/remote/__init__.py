"""Client of a Harness server over HTTP: the same classes and errors, without a database. It needs `httpx`."""

from checkpoints.remote.async_client import RemoteCheckpointer as RemoteCheckpointer
from checkpoints.remote.sync_client import SyncRemoteCheckpointer as SyncRemoteCheckpointer
