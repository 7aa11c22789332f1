"""`python -m examples.demo`: run the demo on the site's own database. `make demo` sets everything up first."""

import os
import sys

import django

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "harness_site.settings")
    django.setup()
    from examples.demo.demo_command import Command

    Command().run_from_argv([sys.argv[0], "demo", *sys.argv[1:]])
