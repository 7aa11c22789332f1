"""Which process this is, and whether another one on the same machine still lives."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_DEAD_STATES = frozenset("ZX")


@dataclass(frozen=True)
class Process:
    """A process, named so that a reused process id is not mistaken for it."""

    host: str
    host_identity: str
    pid: int
    started: str


def this_process() -> Process:
    return Process(socket.gethostname()[:255], _host_identity(), os.getpid(), started(os.getpid()) or "")


@cache
def _host_identity() -> str:
    """Host name, boot and process namespace: within one of these, process ids can be compared. Empty: never."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return ""
    return f"{socket.gethostname()}/{boot}/{namespace}"[:255]


def started(pid: int) -> str | None:
    """When process `pid` started, in ticks since boot; None when there is no such process or it is a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in _DEAD_STATES else fields[19]


def known_dead(host_identity: str, pid: int, started_at: str) -> bool:
    """True only where this machine can tell that the process is gone."""
    if not host_identity or host_identity != _host_identity() or not started_at:
        return False
    return started(pid) != started_at
