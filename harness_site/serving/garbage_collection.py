"""Python's garbage collector in a web process: it runs between requests, not inside them.

What a request creates is free, or unreachable, when its response has been sent, so a collection of the youngest
generation examines little then (0.1 to 0.3 ms; 5 ms after a timeline of thousands of calls). Inside a request the same
collection examines all that the request still uses (20 to 80 ms), and a full one all templates and caches (150 ms).
"""

import gc
import threading
from importlib import import_module
from typing import Final

from django.conf import settings

#: Number of new objects after which a response is followed by a collection of the youngest generation. A page leaves
#: 700 to 2,000 behind, of which some hundred refer to each other in cycles.
YOUNG_OBJECTS: Final = 1_000
#: Number of collections of a generation after which the next older generation is collected with it.
YOUNG_COLLECTIONS: Final = 20
MIDDLE_COLLECTIONS: Final = 20
#: Number of new objects after which Python collects by itself, wherever it is: the bound for memory while no response
#: ends. No page reaches it. Python's own number is 700 (2,000 since 3.13), which each page exceeds many times.
AUTOMATIC_OBJECTS: Final = 100_000

#: Set when the process has loaded what its requests use.
_is_warmed_up = threading.Event()


def freeze_loaded_objects() -> None:
    """Exclude everything that exists now from garbage collection, and leave collecting to the ends of responses.

    To be called once, when a web process has loaded the site. The modules of the site are about 200,000 objects and
    live as long as the process, but a full collection would examine all of them.
    """
    import_module(settings.ROOT_URLCONF)  # with the views, which the first request would import otherwise
    gc.collect()
    gc.freeze()
    gc.set_threshold(AUTOMATIC_OBJECTS)


def collect_garbage_after_response(**_signal: object) -> None:
    """Collect what ended requests have left behind, if it is worth it.

    To be called after each response that has been sent; `request_finished` of Django can call it under a WSGI server.
    The first full collection also excludes its survivors from later ones: these are the templates and caches that the
    first requests have loaded.
    """
    young_objects, young_collections, middle_collections = gc.get_count()
    if young_objects < YOUNG_OBJECTS:
        return
    if young_collections < YOUNG_COLLECTIONS:
        gc.collect(0)
    elif middle_collections < MIDDLE_COLLECTIONS:
        gc.collect(1)
    else:
        gc.collect()
        if not _is_warmed_up.is_set():
            _is_warmed_up.set()
            gc.freeze()
