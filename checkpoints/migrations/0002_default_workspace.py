from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def create_default(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    workspace = apps.get_model("checkpoints", "Workspace")
    workspace.objects.using(editor.connection.alias).get_or_create(slug="default", defaults={"name": "Default"})


class Migration(migrations.Migration):
    dependencies = [("checkpoints", "0001_initial")]

    operations = [migrations.RunPython(create_default, migrations.RunPython.noop, elidable=False)]
