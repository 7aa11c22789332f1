"""Django, which is configured when this module is imported: for packages that a program may import before anything
else of this library. Raises `DjangoMissing`."""

from checkpoints.configure_django import ensure_configured

ensure_configured()
