from django.db import migrations, models

from harness_site.search import leaving, matching


class Migration(migrations.Migration):
    dependencies = [("search", "0004_days")]

    operations = [
        migrations.RunPython(leaving.remove, migrations.RunPython.noop),
        migrations.AddField("passage", "folded", models.TextField(default=""), preserve_default=False),
        migrations.RunPython(matching.fold, migrations.RunPython.noop),
    ]
