"""Page of the HTTP API: its examples, and what it says about each operation."""

from __future__ import annotations

import html
import json
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from django.test import Client

from checkpoints import exceptions
from harness_site.api import reference_page_content
from harness_site.api.openapi_document import build_openapi_document
from tests.support import api_reference_examples
from tests.support.api_example_story import record_examples


@pytest.mark.django_db(transaction=True, reset_sequences=True)
def test_examples_are_what_the_api_answers_now(tmp_path: Path) -> None:
    api_reference_examples.write_examples(record_examples(), tmp_path / "now.json")
    stored = json.loads(api_reference_examples.FILE.read_text())
    assert stored == json.loads((tmp_path / "now.json").read_text()), "`make api-examples` records them again."


@pytest.mark.django_db
def test_page_has_each_operation_with_its_examples() -> None:
    page = Client().get("/api/v1/").content.decode()
    for path, methods in build_openapi_document("/api/v1/")["paths"].items():
        for method, operation in methods.items():
            anchor = operation["operationId"].replace("_", "-")
            (article,) = re.findall(rf'<article id="{anchor}".*?</article>', page, re.DOTALL)
            assert f'href="#{anchor}"' in page
            assert f'id="{anchor}-curl"' in article
            assert f'id="{anchor}-python"' in article
            assert f">{method.upper()}</span>" in article
            assert path.replace("/", "") in re.sub(r"<wbr>|/", "", article)
            for role in operation["x-roles"]:
                assert f"<code>{role}</code>" in article


def test_roles_are_those_of_the_tokens_that_are_accepted() -> None:
    paths = build_openapi_document("/api/v1/")["paths"]
    assert paths["/api/v1/sessions"]["post"]["x-roles"] == ["agent"]
    assert paths["/api/v1/sessions"]["get"]["x-roles"] == ["agent", "auditor", "approver"]
    assert paths["/api/v1/sessions/{session_id}/calls/{call_id}/decision"]["post"]["x-roles"] == ["approver"]


def test_errors_name_operations_and_statuses() -> None:
    names = {
        operation["operationId"]
        for methods in build_openapi_document("")["paths"].values()
        for operation in methods.values()
    }
    assert set(reference_page_content.ERRORS_OF_OPERATIONS) <= names
    statuses = {problem.type: problem.status for problem in reference_page_content.list_problems()}
    assert statuses["OwnershipLost"] == 409
    assert statuses["RateLimited"] == 429
    assert statuses["StorageBusy"] == 503


def test_each_field_of_a_request_has_a_description() -> None:
    topics = reference_page_content.build_topics("https://harness.example.org", "/api/v1/")
    missing = [
        (operation.anchor, field.name)
        for topic in topics
        for operation in topic.operations
        for group in operation.field_groups
        for field in group.fields
        if not field.description
    ]
    assert missing == []


@pytest.mark.parametrize("operation", sorted(reference_page_content.load_examples()))
def test_python_example_sends_the_recorded_request(operation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    example = reference_page_content.load_examples()[operation]
    topics = reference_page_content.build_topics("https://harness.example.org", "/api/v1/")
    (found,) = [one for topic in topics for one in topic.operations if one.anchor == operation.replace("_", "-")]
    sent: list[Any] = []
    is_one_value = not isinstance(example["answer"], list)
    requests = ModuleType("requests")

    def answer(url: str, *, headers: dict[str, str], json: Any = None) -> Any:
        sent.append((url, headers["Authorization"], "Idempotency-Key" in headers, json))
        parts = {"json": lambda: example["answer"]} if is_one_value else {"text": "lines"}
        return SimpleNamespace(status_code=200, **parts)

    setattr(requests, found.method.lower(), answer)
    monkeypatch.setitem(sys.modules, "requests", requests)
    monkeypatch.setenv("HARNESS_TOKEN", "secret")
    program = html.unescape(re.sub(r"<[^>]+>", "", str(found.python)))
    exec(compile(program, operation, "exec"), {})  # noqa: S102 - program of the page
    ((url, authorization, has_key, body),) = sent
    assert url.startswith("https://harness.example.org/api/v1")
    assert (authorization, has_key, body) == ("Bearer secret", found.method != "GET", example.get("body"))
    assert program.count("HARNESS_TOKEN") == 1


def test_error_of_the_introduction_is_a_real_one() -> None:
    shown = re.sub(r"<[^>]+>", "", str(reference_page_content.render_example_problem())).replace("&quot;", '"')
    assert exceptions.SessionNotFound.__name__ in shown
    assert '"facts": {"session_id": "order-99"}' in shown
