"""Seconds that the first action of a fresh process takes, without the start of Python itself.

python -m benchmarks.workers.cold_start_worker setup|save ADDRESS
"""

import sys
import time

START = time.perf_counter()


def measure_django_setup(address: str) -> float:
    """Measure `django.setup()` with the same app, and nothing else."""
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


def measure_import_and_first_save(address: str) -> float:
    """Measure importing the library, opening the database, starting a session, and saving."""
    from checkpoints import SyncCheckpointer

    with SyncCheckpointer(address) as checkpointer:
        session = f"session {time.time_ns()}"
        checkpointer.start_session(session)
        checkpointer.save_checkpoint(session, [{"role": "user", "text": "hello"}], None, 0)
        return time.perf_counter() - START


if __name__ == "__main__":
    print({"setup": measure_django_setup, "save": measure_import_and_first_save}[sys.argv[1]](sys.argv[2]))
