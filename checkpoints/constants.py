"""Constants of the library, which no setting changes."""

from __future__ import annotations

LEASE_SECONDS = 30.0
#: What a checkpointer says that is passed to another process.
CANNOT_BE_PICKLED = (
    "A checkpointer belongs to the process that opened it. Open one in each process, with the same path or URL."
)
#: Schema version of the stored rows; a row with a larger number was written by a newer version of this library.
SCHEMA_VERSION = 1
#: Size limit of a message, argument object or plan, in bytes of canonical JSON, and of a value of a framework.
MAX_VALUE_BYTES = 64 * 1024 * 1024

#: Vendor names of the supported databases.
SUPPORTED_VENDORS = frozenset({"sqlite", "postgresql"})
#: WAL lets readers and one writer work at once; FULL keeps acknowledged writes through a power failure; deleted
#: data is overwritten. The page size is that of a new file, and has to come before WAL. For turns of two messages of
#: 2 KB, pages of 4 / 8 / 16 KB took 1.68 / 1.36 / 1.20 bytes of the file for a byte of text, since fewer pages end in
#: a gap; a save wrote 47 / 85 / 157 KB to the log, and an empty database has 0.4 / 0.8 / 1.5 MB.
SQLITE_PRAGMAS = "PRAGMA page_size=8192; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA secure_delete=ON;"
#: Timeout of locks and of connection attempts, in seconds.
BUSY_TIMEOUT_SECONDS = 30
POOL_TIMEOUT_SECONDS = 5
POOL_SIZE = 8
#: Number of executions after which the server prepares a statement and no longer parses and plans it.
PREPARE_THRESHOLD = 3
#: Largest number of rows that an operation over many sessions handles at once, unless its caller says otherwise.
BATCH_LIMIT = 100
#: Workspace of a program that names none.
DEFAULT_WORKSPACE = "default"
