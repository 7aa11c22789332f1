"""Choice between the two backends of a client: a database of this process, or a server.

Neither is imported before a client is opened, so an agent of a server needs no Django.
"""

from __future__ import annotations

from checkpoints.client_backend import ClientBackend, ClientOptions
from checkpoints.server_or_database_url import is_server_address


def open_backend(options: ClientOptions, *, on_event_loop: bool = False) -> ClientBackend:
    """Open a server, or a database of this process, which takes Django.

    `on_event_loop` tells that the caller is on the thread of an event loop. Raises what the constructor of the client
    raises.
    """
    if is_server_address(options.url):
        from checkpoints.remote.http_client_backend import open_remote_backend

        return open_remote_backend(options)
    import checkpoints.configure_django_on_import  # noqa: F401
    from checkpoints.database_backend.database_client_backend import open_database_backend

    return open_database_backend(options, on_event_loop=on_event_loop)
