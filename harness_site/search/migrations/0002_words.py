from django.db import migrations

from harness_site.search import matching


class Migration(migrations.Migration):
    dependencies = [("search", "0001_initial")]

    operations = [migrations.RunPython(matching.create, matching.drop)]
