"""Django, which is configured when this module is imported: for packages that a program may import before anything
else of this library, and for a client that is opened first. Threads that do so at one time wait for the one that
configures Django, because a module is imported once. Raises `DjangoMissing`."""

from checkpoints.configure_django import ensure_configured

ensure_configured()
