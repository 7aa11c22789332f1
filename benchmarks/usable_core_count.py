"""Processor cores that a benchmark may use."""

import os


def format_usable_core_count() -> str:
    """Return the number of cores that this process and the servers that it starts may use, as `2 cores`."""
    count = (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()) or 1
    return f"{count} core" if count == 1 else f"{count} cores"
