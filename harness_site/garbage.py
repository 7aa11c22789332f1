"""How often a web process stops to look for objects that only refer to each other."""

import gc
from typing import Final

#: New objects between two looks at them: about those of ten pages. Python's own choice is a few hundred, of which a
#: page makes many times as many, and nearly all of them are gone by then without any look.
SELDOM: Final = 50_000


def look_seldom() -> None:
    """For the end of loading: what was made until now stays for good and is not looked through again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(SELDOM, 20, 50)
