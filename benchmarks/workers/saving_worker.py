"""Worker that saves one session. Reads a number of saves per line and answers each line when they are done.

python -m benchmarks.workers.saving_worker library|statement ADDRESS NUMBER
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from benchmarks.django_setup import configure_django
from benchmarks.generated_conversation import PLAN, SPENT_USD, Message, build_conversation

Save = Callable[[list[Message]], None]
TURNS = 400


def main(way: str, address: str, number: str) -> None:
    configure_django({"database": address})
    save = _begin_library_session_and_make_save(number) if way == "library" else _begin_raw_sql_session_and_make_save()
    turns = build_conversation(TURNS)
    turn = 0
    save(turns.get_messages_of_turn(1))
    print("ready", flush=True)
    for line in sys.stdin:
        for _ in range(int(line)):
            turn += 1
            save(turns.get_messages_of_turn(turn % TURNS + 1))
        print("done", flush=True)


def _begin_library_session_and_make_save(number: str) -> Save:
    from checkpoints import SyncCheckpointer

    checkpointer = SyncCheckpointer(using="database")
    session, version = f"session {number}", 0
    checkpointer.start_session(session)

    def save(new: list[Message]) -> None:
        nonlocal version
        version = checkpointer.append_checkpoint(
            session, new, expected_version=version, plan=PLAN, budget_spent_usd=SPENT_USD
        )

    return save


def _begin_raw_sql_session_and_make_save() -> Save:
    from django.db import connections

    from benchmarks.contenders import raw_sql

    with connections["database"].cursor() as cursor:
        cursor.execute(raw_sql.OPEN)
        (thread,) = cursor.fetchone()
    return lambda new: raw_sql.append_turn_over_django_connection("database", thread, new)


if __name__ == "__main__":
    main(*sys.argv[1:])
