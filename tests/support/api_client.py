"""Requests to the HTTP API with Django's test client, and tokens for them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from django.test import Client
from pydantic import ValidationError

from checkpoints.enums import ActorKind
from checkpoints.models import Workspace
from harness_site.accounts import api_tokens
from harness_site.accounts.models import TokenRole
from harness_site.api import response_schemas
from harness_site.api.openapi_document import build_openapi_document
from tests.support.factories import make_workspace

API: Final = "/api/v1"
BY: Final = api_tokens.TokenIssuer(ActorKind.MACHINE, "test")


def make_token(role: TokenRole, *, name: str = "nightly", workspace: Workspace | None = None) -> str:
    """Create a token and return its secret."""
    return api_tokens.create_token_with_secret(
        workspace or make_workspace(), name=name, role=role, lifetime=None, by=BY
    )[1]


class ApiClient:
    """Client with a token, and with the name of its process. Each answer has to be one of the OpenAPI document."""

    def __init__(self, token: str, *, client: str = "") -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._client = Client(headers={**headers, "Harness-Client": client})

    def send(self, method: str, path: str, text: str | None = None, headers: dict[str, str] | None = None) -> Any:
        """Send a request with a body as it is."""
        response = self._client.generic(
            method, f"{API}{path}", text or "", content_type="application/json", headers=headers or {}
        )
        require_documented_response(method, f"{API}{path.partition('?')[0]}", response)
        return response

    def get(self, path: str) -> Any:
        return self.send("GET", path)

    def post(self, path: str, body: dict[str, Any], **headers: str) -> Any:
        return self.send("POST", path, json.dumps(body), headers)


@cache
def _load_documented_operations() -> list[tuple[str, re.Pattern[str], dict[Any, Any]]]:
    document = build_openapi_document(f"{API}/")
    return [
        (method.upper(), re.compile(re.sub(r"\{\w+\}", "[^/]+", path)), operation["responses"])
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    ]


def require_documented_response(method: str, path: str, response: Any) -> None:
    """Require that an answer has a status, a type and the fields that the OpenAPI document names, and no others."""
    described = next(
        (found for verb, route, found in _load_documented_operations() if verb == method and route.fullmatch(path)),
        None,
    )
    kind = response["Content-Type"]
    if response.status_code >= 300:
        assert kind == "application/problem+json", (method, path, response.status_code, kind)
        return
    assert described is not None, (method, path)
    (content_type, content), *_ = described[response.status_code]["content"].items()
    assert kind == content_type, (method, path, kind)
    if kind != "application/json":
        return
    problems = []
    for model in _list_response_models(content["schema"]):
        try:
            model.model_validate(response.json(), extra="forbid")
            return
        except ValidationError as error:
            problems.append(str(error))
    raise AssertionError(f"{method} {path}: {' '.join(problems)}")


def _list_response_models(schema: dict[str, Any]) -> Iterator[Any]:
    for part in schema.get("anyOf", [schema]):
        yield getattr(response_schemas, part["$ref"].rpartition("/")[2])
