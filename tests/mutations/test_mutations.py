"""Whoever breaks a line that carries the promise is told so by a test. Each is broken here once, in a copy."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.mutations.copies import Verdict, copied, mutate, run
from tests.mutations.mutations import MUTATIONS as LIBRARY_MUTATIONS
from tests.mutations.mutations import Mutation
from tests.mutations.peers import PEER_MUTATIONS
from tests.mutations.workflows import WORKFLOW_MUTATIONS
from tests.support.processes import database_url

ABREAST = 2
MUTATIONS = [*LIBRARY_MUTATIONS, *PEER_MUTATIONS, *WORKFLOW_MUTATIONS]


def tried(folder: Path, server: str, mutation: Mutation) -> Verdict:
    copy = copied(folder / str(MUTATIONS.index(mutation)))
    mutate(copy, mutation)
    return run(copy, server, mutation.test)


def test_every_broken_line_is_noticed_by_its_test(django_db_setup: None, tmp_path: Path) -> None:
    server = database_url()
    with ThreadPoolExecutor(ABREAST) as threads:
        tests = sorted({mutation.test for mutation in MUTATIONS})
        unbroken = threads.submit(run, copied(tmp_path / "unbroken"), server, *tests)
        verdicts = dict(zip(MUTATIONS, threads.map(partial(tried, tmp_path, server), MUTATIONS), strict=True))

    assert unbroken.result().passed, unbroken.result().said
    unnoticed = {mutation.promise: verdict.said for mutation, verdict in verdicts.items() if not verdict.failed}
    assert unnoticed == {}, "\n\n".join(f"Not noticed: {promise}\n{said}" for promise, said in unnoticed.items())
