from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("checkpoints", "0016_excerpted"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("status__in", ["running", "waiting"])),
                fields=["host_identity"],
                name="run_owning",
            ),
        ),
    ]
