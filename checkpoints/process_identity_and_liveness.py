"""Identity of this process, and liveness of other processes on the same machine."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_DEAD_STATES = frozenset("ZX")


@dataclass(frozen=True)
class ProcessIdentity:
    """Name of a process that distinguishes it from a later one with the same process id."""

    host: str
    host_identity: str
    pid: int
    started: str


def get_identity_of_this_process() -> ProcessIdentity:
    return ProcessIdentity(
        socket.gethostname()[:255], _build_host_identity(), os.getpid(), find_process_start_time(os.getpid()) or ""
    )


@cache
def _build_host_identity() -> str:
    """Return host name, boot and process namespace: process ids can be compared within one of these. Empty: never."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return ""
    return f"{socket.gethostname()}/{boot}/{namespace}"[:255]


def find_process_start_time(pid: int) -> str | None:
    """Return the start time of process `pid` in ticks since boot; None if there is no such process or it is a
    zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in _DEAD_STATES else fields[19]


def is_process_known_dead(host_identity: str, pid: int, started_at: str) -> bool:
    """Return True only if this machine can tell that the process is dead."""
    if not host_identity or host_identity != _build_host_identity() or not started_at:
        return False
    return find_process_start_time(pid) != started_at
