"""Whatever is removed or renamed behind the library: with a witness, an agent never does anything twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, transaction
from django.test import override_settings
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints import SyncCheckpointer, ToolRegistry
from checkpoints.exceptions import SealError, SessionExists, SessionNotFound, VersionNotFound
from checkpoints.models import Session, Workspace
from checkpoints.seals.witness import get_witness
from checkpoints.seals.witness_file import FileWitness
from tests.integration.checkpoints.integrity.sealed_history import plain
from tests.integration.checkpoints.integrity.test_missing_sessions import delete_behind_the_library
from tests.integration.checkpoints.session_setups import conversation
from tests.support.database_cleanup import delete_test_rows
from tests.support.exhaustive_mode import count_examples

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def witness_of_history() -> Iterator[None]:
    """Configure a key of seals and an empty witness."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "witness"
        FileWitness.create_storage(path)
        with override_settings(HARNESS_SEAL_KEY="5e" * 32, HARNESS_WITNESS=str(path)):
            yield


class Histories:
    """Agents that open sessions by their names, people who delete and fork them, and somebody with the database.

    `paid` has the orders that the agent of a name has paid since the name was last free.
    """

    def __init__(self) -> None:
        self.paid: defaultdict[str, list[int]] = defaultdict(list)

    def act(self, name: str, other: str) -> None:
        """Pay three orders, as an agent does after a restart, which does not know what it has paid."""
        get_witness.cache_clear()
        with SyncCheckpointer() as cp:
            cp.start_session(name, takeover=True)
            registry = ToolRegistry(checkpointer=cp, session_id=name)
            registry.tool(name="pay")(lambda order: self.paid[name].append(order))
            for order in range(3):
                registry.dispatch("pay", {"order": order}, f"call_{order}")
            cp.save_checkpoint(name, conversation("a"), {}, 0)

    def delete(self, name: str, other: str) -> None:
        with SyncCheckpointer() as cp:
            cp.delete_session(name)
        self.paid[name].clear()

    def fork(self, name: str, other: str) -> None:
        with SyncCheckpointer() as cp:
            cp.fork_session(name, other)

    def adopt(self, name: str, other: str) -> None:
        said = StringIO()
        call_command("witness", "adopt", "--session", name, "--missing", "--reason", "A backup.", stdout=said)
        if "noted as gone" in said.getvalue():
            self.paid[name].clear()

    def remove_rows(self, name: str, other: str) -> None:
        with transaction.atomic():
            delete_behind_the_library(name)

    def exchange_names(self, name: str, other: str) -> None:
        for old, new in ((name, "x"), (other, name), ("x", other)):
            plain(Session).filter(session_id=old).update(session_id=new)

    def move(self, name: str, other: str) -> None:
        workspace, _ = Workspace.objects.get_or_create(slug="other", defaults={"name": "Other"})
        plain(Session).filter(session_id=name).update(workspace=workspace)

    def move_back(self, name: str, other: str) -> None:
        plain(Session).filter(session_id=name).update(workspace=Workspace.objects.get(slug="default"))


ACTIONS = [Histories.act, Histories.delete, Histories.fork, Histories.adopt]
ATTACKS = [Histories.remove_rows, Histories.exchange_names, Histories.move, Histories.move_back]
_names = st.sampled_from("abc")


@given(
    history=st.lists(
        st.tuples(
            st.one_of(st.just(Histories.act), st.sampled_from(ACTIONS), st.sampled_from(ATTACKS)), _names, _names
        ),
        min_size=3,
        max_size=12,
    )
)
@settings(max_examples=count_examples(8))
def test_nothing_is_paid_twice(history: list[tuple[Callable[..., None], str, str]], workspace: Workspace) -> None:
    delete_test_rows()
    with witness_of_history():
        histories = Histories()
        for action, name, other in history:
            try:
                action(histories, name, other)
            except (SealError, SessionExists, SessionNotFound, VersionNotFound, CommandError):
                pass
            except (DatabaseError, Session.DoesNotExist):
                assert action in ATTACKS
            for paid in histories.paid.values():
                assert len(paid) == len(set(paid))
