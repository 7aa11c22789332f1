"""Lines of standard input that stop when the guard has to end, although nothing was sent."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import Final, Self

_PIECE_BYTES: Final = 1 << 16


class StandardInput:
    """Async iterator over the lines of standard input. A thread reads them, which the end of the process ends."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        # A descriptor of its own: the transport of the SDK replaces the first one.
        threading.Thread(
            target=self._read_and_queue_lines_in_thread, args=(os.dup(0),), name="harness-stdin", daemon=True
        ).start()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        line = await self._lines.get()
        if line is None:
            raise StopAsyncIteration
        return line

    def end_iteration(self) -> None:
        """End the iteration. The thread goes on reading until the process ends."""
        self._lines.put_nowait(None)

    def _read_and_queue_lines_in_thread(self, descriptor: int) -> None:
        # Without a buffered reader, whose lock would be held when the interpreter ends.
        rest = b""
        while piece := os.read(descriptor, _PIECE_BYTES):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                self._queue_line_on_event_loop(line.decode("utf-8", "replace"))
        self._queue_line_on_event_loop(None)

    def _queue_line_on_event_loop(self, line: str | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._lines.put_nowait, line)
        except RuntimeError:  # the loop has ended
            return
