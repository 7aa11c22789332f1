from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("search", "0007_fact_statistics")]

    operations = [
        migrations.AddField("progress", "older", models.BigIntegerField(db_default=0, default=0)),
    ]
