#!/usr/bin/env python
"""Django's command line for the site."""

import os
import sys

from harness_site.command_line import main

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "harness_site.settings")
    main(sys.argv[1:])
