"""Labels, tools and people are values of different traits: without knowing which belong together, PostgreSQL expects
almost no session with a common label, and fetches all of them to show the newest fifty."""

from typing import Any

from django.db import migrations


def together(_: Any, schema_editor: Any) -> None:
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("CREATE STATISTICS fact_values (dependencies, mcv) ON trait, value FROM search_fact")


def apart(_: Any, schema_editor: Any) -> None:
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("DROP STATISTICS fact_values")


class Migration(migrations.Migration):
    dependencies = [("search", "0006_active_days")]

    operations = [migrations.RunPython(together, apart)]
