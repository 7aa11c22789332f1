from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from checkpoints.audit import insert_unchained_events
from checkpoints.constants import DEFAULT_WORKSPACE
from checkpoints.enums import ActorKind, AuditKind, Role
from checkpoints.models import Workspace
from harness_site.accounts.models import Membership
from harness_site.core.management_command_as_typed import prefix_management_command_with_program


class Command(BaseCommand):
    help = "Makes an account a member of a workspace, or changes its role. The way to a first admin."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="of the account; createsuperuser creates one")
        parser.add_argument("role", choices=Role.values)
        parser.add_argument("--workspace", default=DEFAULT_WORKSPACE, help="its slug; made where there is none")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["name"]).first()
        if user is None:
            command = prefix_management_command_with_program("createsuperuser")
            raise CommandError(f"There is no account {options['name']!r}. Create it with {command}.")
        slug, role = options["workspace"], Role(options["role"])
        with transaction.atomic():
            workspace, _ = Workspace.objects.get_or_create(slug=slug, defaults={"name": slug})
            previous_role = (
                Membership.objects.filter(user=user, workspace=workspace).values_list("role", flat=True).first()
            )
            Membership.objects.update_or_create(user=user, workspace=workspace, defaults={"role": role})
            insert_unchained_events.record_event_of_workspace(
                "default",
                workspace.pk,
                AuditKind.MEMBER_ADDED if previous_role is None else AuditKind.ROLE_CHANGED,
                actor="manage.py add_member",
                actor_kind=ActorKind.MACHINE,
                details={"member": user.get_username(), "before": previous_role, "role": role},
            )
        self.stdout.write(f"{user.get_username()} is {role} in {slug}.")
