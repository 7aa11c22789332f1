"""Django's command `createsuperuser`, as `harness` and the `manage.py` of a checkout run it."""

from typing import Any

from django.contrib.auth.management.commands import createsuperuser
from django.contrib.auth.models import User
from django.core.management.base import CommandError
from django.db import DEFAULT_DB_ALIAS

from harness_site.accounts.first_admin import has_active_admin
from harness_site.core.management_command_as_typed import prefix_management_command_with_program


class Command(createsuperuser.Command):
    """Say also whether the account still needs a membership, and what works without a terminal.

    Django's notice about migrations is left out: it names a file that an installed package does not have, and without
    tables the command ends with the name of the one that exists.
    """

    requires_migrations_checks = False

    def handle(self, *args: Any, **options: Any) -> None:
        if options["interactive"] and not self.stdin.isatty():
            raise CommandError(
                "There is no terminal that could ask for a name and a password. "
                f"{prefix_management_command_with_program('setup_link')} prints a link that creates the first account "
                "in a browser."
            )
        newest = User.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
        super().handle(*args, **options)
        if options["database"] != DEFAULT_DB_ALIAS or not options["verbosity"] or not has_active_admin():
            return
        user = User.objects.filter(pk__gt=newest, is_superuser=True).order_by("pk").first()
        if user is not None:
            name = user.get_username()
            command = prefix_management_command_with_program(f"add_member {name} ROLE")
            self.stdout.write(
                f"This installation has an admin already, so {name} is no member of a workspace yet. Make {name} one "
                f"with {command}."
            )
