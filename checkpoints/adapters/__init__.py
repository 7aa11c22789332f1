"""Adapters to agent frameworks, one folder each. Importing this package imports no framework."""

from checkpoints import configure_django_on_import as configure_django_on_import
