from argparse import ArgumentParser
from typing import Any

from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from checkpoints.audit import insert_unchained_events
from checkpoints.enums import ActorKind, AuditKind
from harness_site.accounts.models import Membership
from harness_site.accounts.user_sessions import end_user_sessions


class Command(BaseCommand):
    help = "Takes every second factor from an account whose owner has lost theirs, and ends its sign-ins."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["name"]).first()
        if user is None:
            raise CommandError(f"There is no account {options['name']!r}.")
        with transaction.atomic():
            removed_count = Authenticator.objects.filter(user=user).delete()[0]
            ended_count = end_user_sessions(user)
            for workspace in Membership.objects.filter(user=user).values_list("workspace_id", flat=True):
                insert_unchained_events.record_event_of_workspace(
                    "default",
                    workspace,
                    AuditKind.FACTOR_REMOVED,
                    actor="manage.py reset_factors",
                    actor_kind=ActorKind.MACHINE,
                    details={"member": user.get_username(), "factors": removed_count, "ended": ended_count},
                )
        self.stdout.write(f"{removed_count} second factors removed, {ended_count} sign-ins ended.")
