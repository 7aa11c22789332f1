"""Conversations of OpenAI's API on the session store, as its clients send their requests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from checkpoints import SyncCheckpointer
from checkpoints.formats import parse_message_parts
from checkpoints.models import Checkpoint, Session, Workspace
from harness_site.accounts.models import TokenRole
from harness_site.api import in_process_rate_limit, openai_conversations
from tests.support.api_client import make_token
from tests.support.factories import make_workspace

SECRET = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"
CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "pay", "arguments": "{}", "status": "completed"}


@pytest.fixture(autouse=True)
def clear_caches() -> Iterator[None]:
    yield
    in_process_rate_limit.clear_request_counts()


class ConversationsClient:
    """Client with a token."""

    def __init__(self, role: TokenRole = TokenRole.AGENT, workspace: Workspace | None = None) -> None:
        token = make_token(role, name=f"{role} {workspace}", workspace=workspace)
        self._client = Client(headers={"Authorization": f"Bearer {token}"})

    def send(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Send a request; return the status and the value."""
        text = "" if body is None else json.dumps(body)
        response = self._client.generic(method, f"/v1/conversations{path}", text, content_type="application/json")
        return response.status_code, response.json()

    def list_texts(self, name: str, query: str = "") -> list[str]:
        status, page = self.send("GET", f"/{name}/items{query}")
        assert (status, page["object"]) == (200, "list")
        return [item["content"][0]["text"] if "content" in item else item["type"] for item in page["data"]]


def write(*texts: str, role: str = "user") -> dict[str, Any]:
    return {"items": [{"role": role, "content": text} for text in texts]}


def test_conversation_keeps_metadata_of_its_own_that_are_called_adapter(workspace: Workspace) -> None:
    client = ConversationsClient()
    status, created = client.send("POST", "", {"metadata": {"adapter": "lora-7"}})
    assert (status, created["metadata"]) == (200, {"adapter": "lora-7"})
    assert client.send("GET", f"/{created['id']}")[1]["metadata"] == {"adapter": "lora-7"}
    assert json.loads(Session.objects.get().metadata) == {
        "adapter": "lora-7",
        "harness.framework": "OpenAI Agents SDK",
    }


def test_conversation_from_its_creation_to_its_end(workspace: Workspace) -> None:
    client = ConversationsClient()
    status, created = client.send("POST", "", {**write("one"), "metadata": {"agent": "desk", "title": "Refund"}})
    name = created["id"]
    assert (status, created["object"], created["metadata"]["agent"]) == (200, "conversation", "desk")
    session = Session.objects.get()
    assert (session.session_id, session.agent, session.title, session.owner) == (name, "desk", "Refund", None)

    status, added = client.send("POST", f"/{name}/items", {"items": [CALL, {"role": "assistant", "content": "two"}]})
    call, answer = added["data"]
    assert (status, call) == (200, CALL)
    assert answer["content"] == [{"type": "output_text", "annotations": [], "text": "two"}]
    assert (answer["type"], answer["status"], answer["id"][:4]) == ("message", "completed", "msg_")
    assert client.list_texts(name) == ["two", "function_call", "one"]
    assert client.list_texts(name, "?order=asc") == ["one", "function_call", "two"]
    status, page = client.send("GET", f"/{name}/items?order=asc&limit=2")
    assert (page["has_more"], page["last_id"]) == (True, "fc_1")
    assert client.list_texts(name, "?order=asc&after=fc_1&include=reasoning.encrypted_content") == ["two"]

    assert client.send("GET", f"/{name}/items/fc_1") == (200, CALL)
    status, _ = client.send("DELETE", f"/{name}/items/{answer['id']}")
    assert client.send("GET", f"/{name}/items/{answer['id']}")[0] == 404
    assert (status, client.list_texts(name)) == (200, ["function_call", "one"])
    assert [row.length for row in Checkpoint.objects.order_by("version")] == [1, 3, 2]  # the earlier ones keep it
    assert client.send("GET", f"/{name}")[1] == created
    assert client.send("DELETE", f"/{name}") == (
        200,
        {"id": name, "object": "conversation.deleted", "deleted": True},
    )
    assert client.send("GET", f"/{name}/items")[0] == 404
    session.refresh_from_db()
    assert (session.status, session.message_count) == ("completed", 2)


def test_concurrently_added_items_are_all_kept(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another client appends between the read of the version and the append."""
    client = ConversationsClient()
    name = client.send("POST", "")[1]["id"]
    read, others = openai_conversations._get_open_conversation, iter(["first", "second"])

    def read_and_wait(*args: Any) -> Session:
        session = read(*args)
        for other in others:
            with SyncCheckpointer() as cp:
                message = {"role": "user", "content": other}
                cp.append_checkpoint(name, [message], expected_version=session.latest_version)
            break
        return session

    monkeypatch.setattr(openai_conversations, "_get_open_conversation", read_and_wait)
    assert client.send("POST", f"/{name}/items", write("mine"))[0] == 200
    assert client.list_texts(name, "?order=asc") == ["first", "second", "mine"]


def test_any_session_can_be_read_as_a_conversation(workspace: Workspace) -> None:
    with SyncCheckpointer() as cp:
        cp.start_session("order/17", "Where?")
        cp.append_checkpoint("order/17", [{"role": "user", "content": f"Key {SECRET}"}], expected_version=0)
    client, auditor = ConversationsClient(), ConversationsClient(TokenRole.AUDITOR)
    assert client.list_texts("order%2F17") == [f"Key {SECRET}"]
    assert SECRET not in str(auditor.list_texts("order%2F17"))
    with SyncCheckpointer() as cp:
        cp.resume("order/17")
        status, problem = client.send("POST", "/order%2F17/items", write("x"))
        assert (status, problem["error"]["type"]) == (409, "SessionBusy")
    assert client.send("DELETE", "/order%2F17/items/msg_at_0")[0] == 200
    assert client.list_texts("order%2F17") == []


def test_conversation_is_named_after_the_first_text_of_its_user(workspace: Workspace) -> None:
    client = ConversationsClient()
    client.send("POST", "", write("Where is\nmy refund?"))
    name = client.send("POST", "")[1]["id"]
    client.send("POST", f"/{name}/items", write("I looked.", role="assistant"))
    for text in ("Thank you.", "Again."):
        client.send("POST", f"/{name}/items", write(text))
    assert list(Session.objects.order_by("pk").values_list("title", flat=True)) == ["Where is my refund?", "Thank you."]
    assert len(parse_message_parts.list_message_parts(client.send("GET", f"/{name}/items")[1]["data"][0])) == 1


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "kind"),
    [
        ("POST", "/{name}/items", {"items": [{}]}, 422, "InvalidFields"),
        ("POST", "/{name}/items", {"items": ["x"]}, 422, "InvalidFields"),
        ("POST", "/{name}/items", write(*["x"] * 21), 422, "InvalidFields"),
        ("POST", "/{name}/items", {}, 422, "InvalidFields"),
        ("POST", "/{name}/items", [], 400, "MalformedRequest"),
        ("POST", "", {"colour": "red"}, 422, "InvalidFields"),
        ("POST", "", {"metadata": {"a": 1}}, 422, "InvalidFields"),
        ("GET", "/{name}/items?limit=0", None, 422, "InvalidFields"),
        ("GET", "/{name}/items?limit=x", None, 422, "InvalidFields"),
        ("GET", "/{name}/items?order=up", None, 422, "InvalidFields"),
        ("GET", "/{name}/items?colour=red", None, 422, "InvalidFields"),
        ("GET", "/{name}/items?after=nothing", None, 404, "ItemNotFound"),
        ("GET", "/{name}/items/nothing", None, 404, "ItemNotFound"),
        ("DELETE", "/{name}/items/nothing", None, 404, "ItemNotFound"),
        ("GET", "/nothing/items", None, 404, "SessionNotFound"),
        ("POST", "/nothing/items", write("x"), 404, "SessionNotFound"),
        ("DELETE", "/nothing", None, 404, "SessionNotFound"),
    ],
)
def test_bad_input(workspace: Workspace, method: str, path: str, body: Any, status: int, kind: str) -> None:
    client = ConversationsClient()
    name = client.send("POST", "", write("one"))[1]["id"]
    answered, value = client.send(method, path.format(name=name), body)
    assert (answered, value["error"]["type"]) == (status, kind)
    assert client.list_texts(name) == ["one"]


def test_tokens_without_permission_are_refused(workspace: Workspace) -> None:
    name = ConversationsClient().send("POST", "", write("one"))[1]["id"]
    foreign = ConversationsClient(workspace=make_workspace(slug="elsewhere"))
    auditor, approver = ConversationsClient(TokenRole.AUDITOR), ConversationsClient(TokenRole.APPROVER)
    writes = [("POST", "", {}), ("POST", f"/{name}/items", write("x")), ("DELETE", f"/{name}", None)]
    for method, path, body in [*writes, ("DELETE", f"/{name}/items/x", None)]:
        assert foreign.send(method, path or "/none", body)[0] in {404, 405}
        for client in (auditor, approver):
            status, problem = client.send(method, path, body)
            assert (status, problem["error"]["type"]) == (403, "RoleInsufficient")
        refused = Client().generic(method, f"/v1/conversations{path}", "{}", content_type="application/json")
        assert (refused.status_code, refused.json()["error"]["type"]) == (401, "TokenInvalid")
    assert foreign.send("GET", f"/{name}/items")[0] == 404
    assert auditor.list_texts(name) == ["one"]
    assert Client().put("/v1/conversations").status_code == 401
    assert auditor.send("PUT", f"/{name}")[0] == 405
