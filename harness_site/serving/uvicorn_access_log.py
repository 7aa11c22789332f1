"""Access log of `harness serve`."""

from __future__ import annotations

import logging

from django.conf import settings
from uvicorn.protocols.http.h11_impl import H11Protocol


class AccessLog:
    """Access log of a connection: without static files, and with the client that a trusted proxy names.

    It stands for the logger to which uvicorn's connection passes one line for each response.
    """

    def __init__(self, logger: logging.Logger, connection: H11Protocol) -> None:
        self._logger = logger
        self._connection = connection

    def info(self, message: str, client: str, method: str, path: str, *others: object) -> None:
        if not path.startswith(settings.STATIC_URL):
            self._logger.info(message, self._find_address_from_proxy() or client, method, path, *others)

    def _find_address_from_proxy(self) -> str:
        """Return the last address in `X-Forwarded-For`, which the proxy has added; empty without a trusted proxy."""
        if not settings.BEHIND_PROXY:
            return ""
        values = [value for name, value in self._connection.scope["headers"] if name == b"x-forwarded-for"]
        return values[-1].decode("latin-1").rpartition(",")[2].strip() if values else ""
