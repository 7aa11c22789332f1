"""Helpers that queue versions and read what was written."""

from collections.abc import Callable
from typing import Any

from checkpoints import (
    SyncCheckpointer,
    SyncWriteBehind,
    ToolRegistry,
)
from checkpoints.models import Checkpoint
from tests.integration.checkpoints.session_setups import conversation

MakeWriter = Callable[..., SyncWriteBehind]
SHORT_TIMEOUT = 0.2  # seconds to wait for a database that takes nothing
LONG_TIMEOUT = 60.0  # seconds that are enough on a busy machine


def wait_long_for_database(writer: SyncWriteBehind) -> None:
    """Let a writer with a short timeout wait for a database that takes versions again, however busy the machine is."""
    writer._behind.flush_timeout = LONG_TIMEOUT


def version_lengths() -> list[int]:
    """Return the number of messages of each version, in order."""
    return list(Checkpoint.objects.order_by("version").values_list("length", flat=True))


def save_behind(writer: SyncWriteBehind, texts: str, **options: Any) -> Any:
    return writer.save_checkpoint("s", conversation(texts), {"upto": texts}, 0.25, **options)


def make_payment_tools(cp: SyncCheckpointer, ran: list[int]) -> ToolRegistry:
    registry = ToolRegistry(checkpointer=cp, session_id="s")
    registry.tool(name="pay")(lambda order: ran.append(order))
    registry.tool(name="look", side_effects={"read"})(lambda order: ran.append(-order))
    return registry
