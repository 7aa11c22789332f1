from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("checkpoints", "0002_framework_states_and_call_values"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="message",
            index=models.Index(
                condition=models.Q(("message_id", ""), _negated=True), fields=["message_id"], name="message_of_id"
            ),
        ),
    ]
