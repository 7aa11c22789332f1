"""Each mutation of a line that a guarantee depends on makes its test fail, in a copy of the library."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from checkpoints import SyncCheckpointer
from tests.conftest import StartChild
from tests.mutations.mutated_copies import Runner, Verdict, copied, mutate
from tests.mutations.mutations import MUTATIONS as LIBRARY_MUTATIONS
from tests.mutations.mutations import Mutation
from tests.mutations.peers import PEER_MUTATIONS
from tests.mutations.workflows import WORKFLOW_MUTATIONS
from tests.support.exhaustive_mode import choose_each
from tests.support.processes import ROOT

ABREAST = 2
MUTATIONS = [*LIBRARY_MUTATIONS, *PEER_MUTATIONS, *WORKFLOW_MUTATIONS]
#: Those whose tests are run: each twentieth one, or in an exhaustive run all.
TRIED = choose_each(20, MUTATIONS)


def make_tables(url: str) -> None:
    SyncCheckpointer.open(url, migrate=True).close()


@pytest.fixture
def model(start_child: StartChild, fresh_url: str) -> str:
    """Database with the tables of the library, copied for each run."""
    start_child(make_tables, url=fresh_url).result()
    return fresh_url


def tried(folder: Path, model: str, mutations: Sequence[Mutation]) -> dict[Mutation, Verdict]:
    """Run the test of each mutation in turn; return the verdicts."""
    verdicts = {}
    with Runner() as runner:
        for mutation in mutations:
            copy = copied(folder / str(MUTATIONS.index(mutation)))
            mutate(copy, mutation)
            verdicts[mutation] = runner.run(copy, model, mutation.test, migrate="/migrations/" in mutation.file)
    return verdicts


@pytest.mark.parametrize("mutation", MUTATIONS, ids=str)
def test_mutated_line_stands_in_its_file_once(mutation: Mutation) -> None:
    assert (ROOT / mutation.file).read_text().count(mutation.old) == 1


def test_every_mutation_fails_its_test(model: str, tmp_path: Path) -> None:
    with ThreadPoolExecutor(ABREAST) as threads, Runner() as runner:
        parts = threads.map(partial(tried, tmp_path, model), [TRIED[start::ABREAST] for start in range(ABREAST)])
        tests = sorted({mutation.test for mutation in TRIED})
        verdicts = {mutation: verdict for part in parts for mutation, verdict in part.items()}
        unbroken = runner.run(copied(tmp_path / "unbroken"), model, *tests)

    assert unbroken.passed, unbroken.said
    assert set(verdicts) == set(TRIED)
    unnoticed = {mutation.promise: verdict.said for mutation, verdict in verdicts.items() if not verdict.failed}
    assert unnoticed == {}, "\n\n".join(f"Not noticed: {promise}\n{said}" for promise, said in unnoticed.items())
