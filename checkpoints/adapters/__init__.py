"""Adapters to agent frameworks, one folder each. Importing this package imports no framework."""

from checkpoints.configure_django import ensure_configured

# A program may import an adapter before anything else of this library.
ensure_configured()
