from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("search", "0008_newest_first")]

    operations = [
        migrations.AddField(
            "passage",
            "problem",
            models.CharField(
                choices=[("skipped", "could not be read"), ("cut", "only its beginning can be found")],
                max_length=8,
                null=True,
            ),
        ),
        migrations.AddIndex(
            "passage",
            models.Index(
                condition=models.Q(("problem__isnull", False)), fields=["workspace", "-id"], name="passage_problem"
            ),
        ),
    ]
