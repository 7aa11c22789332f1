"""Handing versions in, and looking at what became of them."""

from collections.abc import Callable
from typing import Any

from checkpoints import (
    SyncCheckpointer,
    SyncWriteBehind,
    ToolRegistry,
)
from checkpoints.models import Checkpoint
from tests.integration.checkpoints.situations import talk

Make = Callable[..., SyncWriteBehind]
SHORT = 0.2  # seconds to wait for a database that takes nothing
LONG = 60.0  # seconds that are enough on a busy machine


def lengths() -> list[int]:
    """How many messages each version has, in order."""
    return list(Checkpoint.objects.order_by("version").values_list("length", flat=True))


def hand_in(writer: SyncWriteBehind, texts: str, **options: Any) -> Any:
    return writer.save_checkpoint("s", talk(texts), {"upto": texts}, 0.25, **options)


def paying(cp: SyncCheckpointer, ran: list[int]) -> ToolRegistry:
    registry = ToolRegistry(checkpointer=cp, session_id="s")
    registry.tool(name="pay")(lambda order: ran.append(order))
    registry.tool(name="look", side_effects={"read"})(lambda order: ran.append(-order))
    return registry
