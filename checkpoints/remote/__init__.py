"""Backend of a client whose sessions are on a Harness server: the same classes and errors, without a database. It needs
`httpx`."""

from checkpoints.remote.http_client_backend import RemoteBackend as RemoteBackend
from checkpoints.remote.http_client_backend import open_remote_backend as open_remote_backend
