"""Importing this module configures Django, unless it is configured already.

Packages import it that need Django and that a program may import first; a client imports it when it is opened. Python
imports a module once, so threads that do this at one time wait for the first of them. Raises `DjangoMissing`.
"""

from checkpoints.django_configuration import ensure_django_configured

ensure_django_configured()
