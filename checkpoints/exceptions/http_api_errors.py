"""Errors of the HTTP API and of its client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from checkpoints.exceptions.base_error import CheckpointsError
from checkpoints.exceptions.input_errors import InvalidInput
from checkpoints.exceptions.storage_errors import StorageError, StorageUnavailable


class ApiError(CheckpointsError):
    """Base of errors that only the HTTP API has, and its client with it."""

    code = "api_error"


class TokenInvalid(ApiError):
    """The request has no token, or one that is unknown, revoked or expired."""

    code = "token_invalid"
    hint = "Create a token in the settings of the site, and send it as Authorization: Bearer <token>."

    def __init__(self) -> None:
        super().__init__("The request has no valid token. Nothing was done.")


class RoleInsufficient(ApiError):
    """The token's role does not cover the operation."""

    code = "role_insufficient"
    hint = "Use a token with one of these roles. Nothing was done."

    def __init__(self, role: str, needed: Sequence[str]) -> None:
        self.role, self.needed = role, list(needed)
        super().__init__(f"A token with the role {role!r} does not cover this; it takes {' or '.join(needed)}.")


class RouteNotFound(ApiError):
    """The API has no such path, or the path does not take the method."""

    code = "route_not_found"
    hint = "/api/v1/openapi.json lists the paths. Nothing was done."

    def __init__(self, method: str, path: str) -> None:
        self.method, self.path = method, path
        super().__init__(f"There is no {method} {path}.")


class MalformedRequest(ApiError, ValueError):
    """The body of a request is no JSON object that the API reads."""

    code = "malformed_request"
    hint = "Send one JSON object in UTF-8, without NaN or Infinity. Nothing was done."

    def __init__(self, why: str) -> None:
        super().__init__(f"The body of the request cannot be read: {why}.")


class InvalidFields(InvalidInput):
    """Fields of a request are missing, unknown or of another type. `fields` has the problem of each by its path."""

    code = "invalid_fields"
    hint = "/api/v1/openapi.json describes the fields. Nothing was done."

    def __init__(self, fields: Mapping[str, str]) -> None:
        self.fields = dict(fields)
        super().__init__("; ".join(f"{name}: {problem.removesuffix('.')}" for name, problem in fields.items()) + ".")


class RateLimited(ApiError):
    """The token has made too many requests. `retry_after` is in seconds."""

    code = "rate_limited"
    hint = "Wait before the next request. Nothing was done."

    def __init__(self, retry_after: float) -> None:
        self.retry_after = retry_after
        super().__init__(f"This token has made too many requests; the next one may come in {retry_after:g} seconds.")


class IdempotencyKeyReused(ApiError, ValueError):
    """An `Idempotency-Key` came with another request than the first time."""

    code = "idempotency_key_reused"
    hint = "Use a new key for each request, and the same one only to repeat a request. Nothing was done."

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"The Idempotency-Key {key!r} was used for another request.")


class RequestInProgress(ApiError):
    """A request with the same `Idempotency-Key` is being served."""

    code = "request_in_progress"
    hint = "Repeat the request with the same key to get its answer."

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"The request with the Idempotency-Key {key!r} is still being served.")


class PreconditionFailed(ApiError):
    """The resource is not what `If-Match` names."""

    code = "precondition_failed"
    hint = "Read it again, and decide again. Nothing was done."

    def __init__(self, expected: str, current: str) -> None:
        self.expected, self.current = expected, current
        super().__init__(f"If-Match names {expected}, and the resource is at {current}.")


class NotOverHttp(ApiError):
    """The operation needs a database and is not available to a client over HTTP."""

    code = "not_over_http"
    hint = 'Open the database itself for this: Checkpointer("postgresql://…").'

    def __init__(self, operation: str) -> None:
        super().__init__(f"{operation} is not available over HTTP.")


class ServerUnavailable(StorageUnavailable):
    """The server cannot be reached, or it gave no answer."""

    code = "server_unavailable"
    hint = "Check the address, the network and the server; the next operation connects again."


class ServerFailed(StorageError):
    """The server failed in a way that its answer does not explain; its log has the reason."""

    code = "server_failed"
    hint = "The log of the server says why."
