"""An installation whose index was written before letters were folded, brought up to date in a process of its own."""

import os
from typing import Any


def upgraded(url: str, text: str, typed: str) -> dict[str, Any]:
    """`text` is said before the update and again after it. What the index holds of both then, and whether `typed` finds
    them: before and after the index has been brought up to the store again."""
    os.environ |= {"HARNESS_DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "harness_site.settings"}
    import django

    django.setup()
    from django.core.management import call_command

    from harness_site.search import indexing
    from harness_site.search.finding import find
    from harness_site.search.models import Kind, Passage
    from harness_site.search.words import Query
    from tests.support.factories import make_message, make_session

    for target in (["checkpoints"], ["search", "0004"]):
        call_command("migrate", *target, verbosity=0)
    session = make_session()
    message = make_message(session=session, text=text)
    _index_as_before(session.workspace_id, session.pk, message.pk, text)
    call_command("migrate", verbosity=0)
    before = Passage.objects.count()
    make_message(session=session, text=text)
    while indexing.step():
        pass
    said = Passage.objects.filter(kind=Kind.MESSAGE).order_by("source")
    found = find(session.workspace_id, Query.parse(typed)).passages
    return {
        "before": before,
        "kept": list(said.values_list("text", "folded")),
        "found": sorted(passage.position or 0 for passage in found),
    }


def _index_as_before(workspace: int, session: int, source: int, text: str) -> None:
    """What is known of the text, as the update finds it."""
    from django.db import connection
    from django.db.migrations.executor import MigrationExecutor

    models = MigrationExecutor(connection).loader.project_state([("search", "0004_days")]).apps
    place = {"workspace_id": workspace, "session_id": session}
    written = {"kind": "message", "source": source, "part": 0, "position": 0, "era": 0, "text": text}
    models.get_model("search", "Passage").objects.create(**place, **written)
    models.get_model("search", "Fact").objects.create(**place, trait="tool", value="left over")
    done = {"settled": source, "reached": source, "horizon": 1}
    models.get_model("search", "Progress").objects.create(kind="message", **done)
