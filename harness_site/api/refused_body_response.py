"""Answers to requests whose bodies the server does not take: problems for programs, a sentence for people."""

from __future__ import annotations

from checkpoints.server_or_database_url import API_PATH
from harness_site.api.problem_details import PROBLEM, build_problem_response
from harness_site.serving.asgi_types import Scope
from harness_site.serving.request_body_buffering_middleware import BodyRefused


def build_refused_body_response(scope: Scope, refused: BodyRefused) -> tuple[str, bytes]:
    """Return the media type and the content of the answer to a request whose body is refused."""
    if scope["path"].removeprefix(scope.get("root_path", "")).startswith(f"{API_PATH}/"):
        return PROBLEM, build_problem_response(refused.error, refused.status).content
    return "text/plain; charset=utf-8", refused.text.encode()
