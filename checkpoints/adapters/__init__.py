"""Adapters to agent frameworks, one folder each. Importing this package imports no framework."""

from checkpoints import configured_django as configured_django
