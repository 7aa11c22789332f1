"""The launcher that the lives of an agent are forked from."""

from __future__ import annotations

import pytest

from checkpoints.testing.child_processes import Processes
from tests.crash.conftest import Fresh
from tests.crash.imports_while_opening import list_modules_imported_while_opening


@pytest.mark.unsealed("the key that signs decisions imports `cryptography`, in each process that opens a database")
def test_life_imports_nothing_while_it_opens_its_database(fresh_session: Fresh) -> None:
    """Hundreds of lives would repeat the imports, which take as long as the rest of a short life."""
    with Processes() as processes:
        life = processes.run(list_modules_imported_while_opening, fresh_session())
    assert (life.value, life.error) == ([], None)
