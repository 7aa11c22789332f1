"""What a fresh process does first, and the seconds until it is done, without the start of Python itself.

python -m benchmarks.workers.fresh setup|save ADDRESS
"""

import sys
import time

START = time.perf_counter()


def setup(address: str) -> float:
    """`django.setup()` with the same app, and nothing else."""
    import django
    from django.conf import settings

    engine = "postgresql" if "://" in address else "sqlite3"
    settings.configure(
        DATABASES={"default": {"ENGINE": f"django.db.backends.{engine}", "NAME": address}},
        INSTALLED_APPS=["checkpoints"],
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        USE_TZ=True,
    )
    django.setup()
    return time.perf_counter() - START


def save(address: str) -> float:
    """Import the library, open the database, begin a session, save."""
    from checkpoints import SyncCheckpointer

    with SyncCheckpointer(address) as checkpointer:
        session = f"session {time.time_ns()}"
        checkpointer.start_session(session)
        checkpointer.save_checkpoint(session, [{"role": "user", "text": "hello"}], None, 0)
        return time.perf_counter() - START


if __name__ == "__main__":
    print({"setup": setup, "save": save}[sys.argv[1]](sys.argv[2]))
