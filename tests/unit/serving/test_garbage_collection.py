import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator

import pytest

from harness_site.serving import garbage_collection
from harness_site.serving.garbage_collection import AUTOMATIC_OBJECTS, YOUNG_OBJECTS, collect_garbage_after_response
from tests.support.exhaustive_mode import mark_all_but_each

#: A server that answers many requests, and prints how many objects it has excluded from collections and how many start
#: one, how many collections there were until the last byte of a response, how many after it, and how many objects were
#: tracked after each third of the requests.
_SERVER_PROGRAM = """
import asyncio, gc, io
from django.test import RequestFactory
from harness_site.{module} import application

collections = {{"inside": 0, "after": 0}}
place = "inside"

def count(phase, info):
    collections[place] += phase == "start"

def answer_wsgi():
    global place
    environ = RequestFactory().get("/health/live").environ
    place = "inside"
    pieces = application(environ, lambda status, headers: None)
    list(pieces)
    place = "after"
    pieces.close()

async def receive():
    return {{"type": "http.request", "body": b"", "more_body": False}}

async def send(message):
    global place
    if message["type"] == "http.response.body" and not message.get("more_body"):
        place = "after"

async def answer_asgi():
    global place
    place = "inside"
    scope = {{
        "type": "http", "http_version": "1.1", "method": "GET", "path": "/health/live", "query_string": b"",
        "headers": [(b"host", b"localhost")],
    }}
    await application(scope, receive, send)

async def serve(sizes):
    for number in range(600):
        answer_wsgi() if "{module}" == "wsgi" else await answer_asgi()
        if number % 200 == 199:
            sizes.append(len(gc.get_objects()))

print(gc.get_freeze_count(), gc.get_threshold()[0], end=" ")
gc.callbacks.append(count)
sizes = []
asyncio.run(serve(sizes))
print(collections["inside"], collections["after"], *sizes)
"""


class _Node:
    """Object of a request that refers to itself, so only a garbage collection frees it."""

    def __init__(self) -> None:
        self.request = self


@pytest.fixture
def collector_of_a_web_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leave collecting to the ends of responses, as a loaded web process does; nothing is frozen."""
    monkeypatch.setattr(garbage_collection, "_is_warmed_up", threading.Event())
    monkeypatch.setattr(garbage_collection, "YOUNG_COLLECTIONS", 4)
    monkeypatch.setattr(garbage_collection, "MIDDLE_COLLECTIONS", 4)
    garbage_collection._is_warmed_up.set()
    thresholds = gc.get_threshold()
    gc.collect()
    gc.set_threshold(AUTOMATIC_OBJECTS)
    yield
    gc.set_threshold(*thresholds)


def _answer_request(size: int = 300) -> list[weakref.ref[_Node]]:
    nodes = [_Node() for _ in range(size)]
    return [weakref.ref(node) for node in nodes]


def _count_alive(references: list[weakref.ref[_Node]]) -> int:
    return sum(reference() is not None for reference in references)


@pytest.mark.parametrize("module", mark_all_but_each(2, ["asgi", "wsgi"]))
def test_a_server_collects_after_responses_and_excludes_the_modules_of_the_site(module: str) -> None:
    program = _SERVER_PROGRAM.format(module=module)
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    frozen, threshold, inside, after, *sizes = map(int, finished.stdout.split())
    assert frozen > 50_000
    assert threshold == AUTOMATIC_OBJECTS
    assert inside == 0
    assert after > 10
    assert max(sizes) - min(sizes) < 10 * YOUNG_OBJECTS


@pytest.mark.usefixtures("collector_of_a_web_process")
def test_cycles_of_many_requests_do_not_accumulate() -> None:
    references: list[weakref.ref[_Node]] = []
    most_alive = 0
    for _ in range(300):
        references = [reference for reference in references if reference() is not None] + _answer_request()
        most_alive = max(most_alive, _count_alive(references))
        collect_garbage_after_response()
    assert most_alive <= 3 * YOUNG_OBJECTS


@pytest.mark.usefixtures("collector_of_a_web_process")
def test_cycles_that_outlived_a_collection_are_collected_later() -> None:
    kept = [_Node() for _ in range(100)]
    references = [weakref.ref(node) for node in kept]
    for _ in range(10):
        _answer_request()
        collect_garbage_after_response()
    assert _count_alive(references) == 100
    kept.clear()
    for _ in range(100):
        _answer_request()
        collect_garbage_after_response()
    assert _count_alive(references) == 0


@pytest.mark.usefixtures("collector_of_a_web_process")
def test_the_first_full_collection_excludes_what_the_first_requests_have_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    garbage_collection._is_warmed_up.clear()
    freezes: list[int] = []
    monkeypatch.setattr(gc, "freeze", lambda: freezes.append(gc.get_count()[2]))
    for _ in range(200):
        _answer_request()
        collect_garbage_after_response()
    assert freezes == [0]
