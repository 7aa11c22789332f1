"""Secrets of a paused task are encrypted in the database and decrypted for the run that takes it."""

from typing import Any

import pytest
from pytest_django import Settings

from checkpoints import SyncCheckpointer
from checkpoints.exceptions import NotRepresentable, SecretsLocked
from checkpoints.models import EarlyResponse, PausedTask, PeerCall, Session
from checkpoints.peers import Join
from checkpoints.peers import PeerCall as Call
from tests.conftest import Open
from tests.integration.checkpoints.peers.paused_agents import accepted, join, pause

SECRET = "eyJ-very-secret"


def stored() -> str:
    """Return all rows of the peer tables as text."""
    models = (PausedTask, PeerCall, EarlyResponse, Session)
    return "\n".join(str(row) for model in models for row in model._default_manager.values_list())


@pytest.mark.parametrize(
    "secrets",
    [
        {"security_context": {"auth_token": SECRET}},
        {"token": SECRET},
        {"headers": [{"Authorization": f"Bearer {SECRET}"}, {"X-Api-Key": SECRET}]},
        {"clientSecret": SECRET, "db": {"password": SECRET}, "session_cookie": SECRET, "jwt": SECRET},
        {"private_key": SECRET + "\ud800"},
    ],
)
def test_tokens_are_stored_encrypted_and_restored(
    cp: SyncCheckpointer, open_checkpointer: Open, secrets: dict[str, Any]
) -> None:
    pause(cp, Join("j", [Call("c1", "stock", {"ask": 1, **secrets}, sent=False)]), state={"step": 1, **secrets})
    assert SECRET not in stored()
    assert '"step":1' in stored()
    requests = []
    open_checkpointer().tell_peers(lambda notice: requests.append(notice.request))
    accepted(cp, "c1")

    assert open_checkpointer().take_paused("s").state == {"step": 1, **secrets}
    assert requests == [{"ask": 1, **secrets}]


def test_token_of_a_response_is_stored_as_a_digest(cp: SyncCheckpointer) -> None:
    cp.accept_response("c1", "early", token=SECRET)
    cp.accept_response("c2", "early", token=SECRET)
    pause(cp, Join("j", [Call("c1", "stock", token=SECRET)]))
    accepted_with_token = cp.accept_response("c1", "yes", token=SECRET)

    assert type(accepted_with_token).__name__ == "Duplicate"
    assert EarlyResponse.objects.count() == 1
    assert SECRET not in stored()


def test_token_is_not_in_the_repr_of_a_call() -> None:
    assert SECRET not in repr(Call("c1", "stock", token=SECRET))


def test_values_that_are_not_secret_are_stored_unencrypted(cp: SyncCheckpointer) -> None:
    state = {"token_usage": {"total_tokens": 12}, "tokens": 12, "secret": None, "password": "", "broken": "token"}
    pause(cp, join("j", "c1"), state=state)

    assert "$encrypted" not in stored()
    accepted(cp, "c1")
    assert cp.take_paused("s").state == state


def test_former_key_still_decrypts(cp: SyncCheckpointer, settings: Settings) -> None:
    pause(cp, join("j", "c1"), state={"token": SECRET})
    accepted(cp, "c1")
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "a newer key"

    assert cp.take_paused("s").state == {"token": SECRET}


def test_task_is_not_taken_with_another_key(cp: SyncCheckpointer, settings: Settings) -> None:
    pause(cp, join("j", "c1"), state={"ctx": {"token": SECRET}})
    accepted(cp, "c1")
    key, settings.SECRET_KEY = settings.SECRET_KEY, "another key"

    with pytest.raises(SecretsLocked, match=r"state\.ctx\.token"):
        cp.take_paused("s")
    settings.SECRET_KEY = key
    assert cp.take_paused("s").times_taken == 1


def test_without_a_key_a_secret_is_refused(
    cp: SyncCheckpointer, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.SECRET_KEY = ""
    for name in ("HARNESS_SECRET_KEY", "HARNESS_SECRET_KEY_FILE", "HARNESS_OLD_SECRET_KEYS"):
        monkeypatch.delenv(name, raising=False)

    with pytest.raises(SecretsLocked, match="no key"):
        pause(cp, join("j", "c1"), state={"token": SECRET})
    assert SECRET not in stored()
    assert pause(cp, join("j", "c1"), state={"token": ""}).number == 1


def test_script_reads_its_key_from_the_environment(
    cp: SyncCheckpointer, settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    settings.SECRET_KEY = ""
    monkeypatch.setenv("HARNESS_SECRET_KEY", "the first key")
    pause(cp, join("j", "c1"), state={"token": SECRET})
    accepted(cp, "c1")
    (tmp_path / "key").write_text("the second key\n")
    monkeypatch.delenv("HARNESS_SECRET_KEY")
    monkeypatch.setenv("HARNESS_SECRET_KEY_FILE", str(tmp_path / "key"))

    with pytest.raises(SecretsLocked):
        cp.take_paused("s")
    monkeypatch.setenv("HARNESS_OLD_SECRET_KEYS", "an older key, the first key")
    assert cp.take_paused("s").state == {"token": SECRET}


def test_marker_of_an_encrypted_value_cannot_be_forged(cp: SyncCheckpointer) -> None:
    with pytest.raises(NotRepresentable, match="encrypted"):
        pause(cp, join("j", "c1"), state={"a": {"$encrypted": "x"}})
