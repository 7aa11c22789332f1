"""`python -m benchmarks.load`: fill the PostgreSQL database of `HARNESS_DATABASE_URL` with generated sessions."""

import os
import sys

import django

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "harness_site.settings")
    django.setup()
    from benchmarks.load.generate_sessions_command import Command

    Command().run_from_argv([sys.argv[0], "load", *sys.argv[1:]])
