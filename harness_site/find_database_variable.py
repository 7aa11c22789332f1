"""Name of the environment variable that chooses the database of this process. It needs no package of the site."""

import os
from typing import Final

#: The first that is set decides; the folder is that of the SQLite file.
_VARIABLES: Final = ("HARNESS_DATABASE_URL", "HARNESS_DATABASE_URL_FILE", "HARNESS_STATE_DIR", "HARNESS_STATE_DIR_FILE")


def find_database_variable() -> str:
    """Return the variable that a second command needs, to find the same database; empty if none is set: then it has to
    run as the same user, in whose folder the SQLite file is.
    """
    return next((name for name in _VARIABLES if os.environ.get(name)), "")
