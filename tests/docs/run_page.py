"""Runs the Python blocks of one page in their order, as one script: `python run_page.py docs/peers.md`.

`await` works at the top of a block. A failure names the page and its line.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import sys
from pathlib import Path
from typing import Any

_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(page: str) -> list[str]:
    """Return the code of each block, shifted to its line on the page."""
    return ["\n" * page.count("\n", 0, found.start(1)) + found.group(1) for found in _BLOCK.finditer(page)]


async def run(page: str, path: str) -> None:
    """Run the blocks of `page`, which stands in the file `path`."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        code = compile(block, path, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        if code.co_flags & inspect.CO_COROUTINE:
            await eval(code, names)  # noqa: S307 - the pages are ours
        else:
            # On a thread of its own: what blocks has no place on an event loop.
            await asyncio.to_thread(exec, code, names)


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]).read_text(), sys.argv[1]))
