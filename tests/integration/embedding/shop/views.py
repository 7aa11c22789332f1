"""Views that make a payment through the library: a line in the file of effects for each that happens."""

import os

from django.db import transaction
from django.http import HttpRequest, JsonResponse

from checkpoints import SyncCheckpointer, Tool, ToolRegistry
from checkpoints.exceptions import CheckpointsError
from tests.support.processes import append_line, die


def pay(order: int) -> str:
    append_line(os.environ["SHOP_EFFECTS"], f"paid {order}")
    if os.environ.get("SHOP_DIES") == "1":
        die()
    return f"paid {order}"


def make_payment(registry: ToolRegistry, order: int) -> JsonResponse:
    return JsonResponse({"content": registry.dispatch("pay", {"order": order}, f"call_{order}").content})


def open_registry(order: int, using: str = "default") -> ToolRegistry:
    checkpointer = SyncCheckpointer(using=using)
    checkpointer.start_session(f"order-{order}")
    return ToolRegistry([Tool("pay", pay)], checkpointer, f"order-{order}")


#: Whose sessions were started before any request: an agent that lives as long as its process.
registries: dict[int, ToolRegistry] = {}


def charge(request: HttpRequest, order: int) -> JsonResponse:
    return make_payment(registries[order], order)


def charge_and_answer(request: HttpRequest, order: int) -> JsonResponse:
    return _answer(order)


@transaction.non_atomic_requests
def charge_outside(request: HttpRequest, order: int) -> JsonResponse:
    return _answer(order)


def charge_beside(request: HttpRequest, order: int) -> JsonResponse:
    """In the transaction of the request, with a connection of the library's own."""
    return _answer(order, using="durable")


def _answer(order: int, using: str = "default") -> JsonResponse:
    try:
        return make_payment(open_registry(order, using), order)
    except CheckpointsError as error:
        return JsonResponse({"error": error.code, "hint": error.hint}, status=409)
