"""Print as JSON what Django's admin shows of the library: `python -m …clinic.administer`."""

import json
from typing import Any

import django


def main() -> None:
    django.setup()
    from django.contrib.auth.models import Permission, User
    from django.test import Client

    from checkpoints.models import Decision, Message, Session, ToolCall, Workspace
    from tests.integration.accounts.test_url_access import things
    from tests.support.exhaustive_mode import EXHAUSTIVE

    things(Workspace.objects.get())
    superuser, staff = Client(), Client()
    superuser.force_login(User.objects.create_superuser("root"))
    clerk = User.objects.create_user("clerk", is_staff=True)
    clerk.user_permissions.set(Permission.objects.all())
    staff.force_login(clerk)
    content = {Session, Message, ToolCall, Decision}
    models = [each for number, each in enumerate(registered()) if EXHAUSTIVE or number % 4 == 0 or each in content]
    seen = {model.__name__: answers(model, superuser, staff) for model in models}
    print(json.dumps({"registered": [model.__name__ for model in registered()], "seen": seen}))


def registered() -> list[Any]:
    from django.contrib import admin

    return [model for model in admin.site._registry if model._meta.app_label == "checkpoints"]


def answers(model: Any, superuser: Any, staff: Any) -> dict[str, Any]:
    """Statuses for one model, and whether anything that was said is on its pages."""
    listed = f"/admin/checkpoints/{model._meta.model_name}/"
    row = model._default_manager.first()
    changed = f"{listed}{row.pk}/change/" if row else None
    paths = [path for path in (listed, changed) if path]
    before = model._default_manager.count()
    deleting = {"action": "delete_selected", "_selected_action": [str(row.pk)] if row else [], "post": "yes"}
    posts = [f"{listed}add/", *([changed, f"{listed}{row.pk}/delete/"] if changed and row else [])]
    pages = [superuser.get(path) for path in (*paths, f"{listed}?q=order-17")]
    return {
        "superuser": sorted({page.status_code for page in pages}),
        "staff": sorted({staff.get(path).status_code for path in paths}),
        "posts": sorted({superuser.post(path, {"post": "yes"}).status_code for path in posts}),
        "kept": superuser.post(listed, deleting).status_code < 500 and model._default_manager.count() == before,
        "said": [word for word in ("Look.", "a secret") if any(word in page.content.decode() for page in pages)],
        "row": row is not None,
    }


if __name__ == "__main__":
    main()
