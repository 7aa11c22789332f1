"""Temporary files and SQLite databases of a command in memory.

    python -m tests.support.files_in_memory -- command args…

Tests write them thousands of times, and waiting for the disk takes longer than many a test. They kill processes and
never the machine, so they find the same data in memory; whatever asks for durable writes still does. On a machine
without room in memory the files are where they always are.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.wrapped_command import convert_sigterm_to_exit, read_command, run_command

#: File system in memory on Linux. In a container it is often too small, or nothing in it may be executed.
MEMORY = Path("/dev/shm")  # noqa: S108 - the folder in it has a random name
BYTES_NEEDED = 4 * 1024**3


def main(arguments: Sequence[str]) -> int:
    """Run a command with its files in memory where there is room, and return the command's exit code."""
    command = read_command(arguments, "tests.support.files_in_memory")
    with convert_sigterm_to_exit():
        if not _has_room():
            return run_command(command, {})
        with _create_folder() as folder:
            return run_command(command, {"TMPDIR": str(folder), "HARNESS_STATE_DIR": str(folder / "state")})


def _has_room() -> bool:
    if not MEMORY.is_dir():
        return False
    file_system = os.statvfs(MEMORY)
    if file_system.f_flag & os.ST_NOEXEC or file_system.f_bavail * file_system.f_frsize < BYTES_NEEDED:
        return False
    sizes = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return int(sizes["MemAvailable"].split()[0]) * 1024 >= 2 * BYTES_NEEDED


@contextmanager
def _create_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="harness-tests-", dir=MEMORY))
    try:
        folder.chmod(0o711)  # the user of the PostgreSQL server has a folder in it
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
