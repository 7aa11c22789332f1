"""Tests of your own agent: run it with a crash at every write boundary.

    from checkpoints.testing import CrashPoints, Fault, Script

    def agent(url, session_id, ledger): ...     # starts or resumes the session; returns when it is done
    def decide(url, session_id, ledger): ...    # looks into the ledger, and decides what is pending truthfully
    def observe(url, session_id, ledger): ...   # transcript, budget, plan, and what is in the ledger

    def test_no_crash_changes_what_happens(tmp_path):
        def fresh():
            trial = uuid4().hex
            return {"url": f"sqlite:///{tmp_path}/agent.db", "session_id": trial, "ledger": f"{tmp_path}/{trial}"}

        with CrashPoints(Script(agent, observe, decide), fresh) as points:
            points.check_each_boundary(Fault.KILL)
            points.check_each_boundary(Fault.DISCONNECT)
            points.check_repeated_kills()
            points.check_random_kills(20, seed=1)

The three functions run in processes of their own that know nothing of a test runner: the address of the database is
an argument. For faults inside your own process there are `fault_at` and `watch_write_boundaries`.
"""

from checkpoints import configure_django_on_import as configure_django_on_import
from checkpoints.testing.child_processes import Life, Processes
from checkpoints.testing.crash_at_every_write import CrashPoints
from checkpoints.testing.inject_process_faults import Fault, fault_at
from checkpoints.testing.trial_script_and_progress import Diverged, Script
from checkpoints.testing.write_boundaries import Boundary, Side, watch_write_boundaries

__all__ = [
    "Boundary",
    "CrashPoints",
    "Diverged",
    "Fault",
    "Life",
    "Processes",
    "Script",
    "Side",
    "fault_at",
    "watch_write_boundaries",
]
