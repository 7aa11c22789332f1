"""Nothing is removed from a session that was altered, except for the whole of it: the evidence would go too."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import models

from checkpoints import SyncCheckpointer
from checkpoints.exceptions import IntegrityError
from checkpoints.framework_states import remove_and_copy_states
from checkpoints.models import Checkpoint, FrameworkState, Message, Session, ToolCall
from tests.conftest import Open
from tests.integration.checkpoints.integrity.conftest import KEY, OTHER_KEY
from tests.integration.checkpoints.integrity.sealed_history import create_sealed_session, plain
from tests.integration.checkpoints.session_setups import conversation, start_session


def save_three_versions(cp: SyncCheckpointer, session_id: str) -> None:
    start_session(cp, session_id)
    for text in "xyz":  # each version has a transcript of its own
        cp.save_checkpoint(session_id, conversation(text), {"n": text}, 0)


def list_versions(session_id: str) -> list[int]:
    rows = plain(Checkpoint).filter(session__session_id=session_id).order_by("version")
    return list(rows.values_list("version", flat=True))


def list_quarantined() -> list[str]:
    return list(plain(Session).filter(quarantined_at__isnull=False).values_list("session_id", flat=True))


@pytest.mark.parametrize(
    ("model", "column", "value"),
    [(Session, "result", '"x"'), (Checkpoint, "plan", '{"n":9}'), (Message, "body", "{}")],
    ids=["session", "old version", "message of an old version"],
)
def test_prune_keeps_an_altered_session_as_it_is(
    open_checkpointer: Open, model: type[models.Model], column: str, value: str
) -> None:
    for name in "ab":
        save_three_versions(open_checkpointer(), name)
    rows = plain(model).filter(**{"session_id" if model is Session else "session__session_id": "a"})
    rows.filter(pk=rows.earliest("pk").pk).update(**{column: value})
    out, err = StringIO(), StringIO()
    with pytest.raises(CommandError, match="nothing was removed: 1"):
        call_command("prune", "--keep-last", "1", stdout=out, stderr=err)
    assert out.getvalue().startswith("2 versions and 2 messages of 1 session")
    assert "row" in err.getvalue().lower()
    assert (list_versions("a"), list_versions("b")) == ([1, 2, 3], [3])
    assert list_quarantined() == ["a"]


def test_prune_goes_on_past_a_session_with_an_unknown_key(open_checkpointer: Open, settings: Any) -> None:
    for name, key in (("a", OTHER_KEY), ("b", KEY)):
        settings.HARNESS_SEAL_KEY = key
        save_three_versions(open_checkpointer(), name)
    with pytest.raises(CommandError, match="nothing was removed: 1"):
        call_command("prune", "--keep-last", "1", stdout=StringIO(), stderr=StringIO())
    assert (list_versions("a"), list_versions("b"), list_quarantined()) == ([1, 2, 3], [3], [])


REMOVALS: dict[str, Callable[[SyncCheckpointer], object]] = {
    "version": lambda cp: cp.delete_checkpoint("s", 1),
    "states": lambda cp: remove_and_copy_states.delete_selected_states(cp.store, "s"),
}


@pytest.mark.parametrize("remove", REMOVALS)
def test_row_is_not_removed_from_an_altered_session(open_checkpointer: Open, remove: str) -> None:
    create_sealed_session(open_checkpointer, "s")
    cp = open_checkpointer()
    counts = [plain(model).count() for model in (Checkpoint, FrameworkState)]
    plain(ToolCall).filter(call_id="call_1").update(result='"forged"')
    with pytest.raises(IntegrityError, match="checkpoints_toolcall"):
        REMOVALS[remove](cp)
    assert [plain(model).count() for model in (Checkpoint, FrameworkState)] == counts
    assert list_quarantined() == ["s"]
