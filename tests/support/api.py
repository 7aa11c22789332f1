"""Requests to the HTTP API with Django's test client, and tokens for them."""

from __future__ import annotations

import json
from typing import Any, Final

from django.test import Client

from checkpoints.enums import ActorKind
from checkpoints.models import Workspace
from harness_site.accounts import api_tokens
from harness_site.accounts.models import TokenRole
from tests.support.factories import make_workspace

API: Final = "/api/v1"
BY: Final = api_tokens.TokenIssuer(ActorKind.MACHINE, "test")


def make_token(role: TokenRole, *, name: str = "nightly", workspace: Workspace | None = None) -> str:
    """Create a token and return its secret."""
    return api_tokens.create_token(workspace or make_workspace(), name=name, role=role, lifetime=None, by=BY)[1]


class ApiClient:
    """Client with a token, and with the name of its process."""

    def __init__(self, token: str, *, client: str = "") -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._client = Client(headers={**headers, "Harness-Client": client})

    def send(self, method: str, path: str, text: str | None = None, headers: dict[str, str] | None = None) -> Any:
        """Send a request with a body as it is."""
        return self._client.generic(
            method, f"{API}{path}", text or "", content_type="application/json", headers=headers or {}
        )

    def get(self, path: str) -> Any:
        return self.send("GET", path)

    def post(self, path: str, body: dict[str, Any], **headers: str) -> Any:
        return self.send("POST", path, json.dumps(body), headers)
