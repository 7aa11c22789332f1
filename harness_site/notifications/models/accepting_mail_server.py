"""Table of the mail servers that have accepted a message."""

from django.db import models
from django.db.models.functions import Now


class AcceptingMailServer(models.Model):
    """Mail server that has accepted a message of this installation, and when it did so for the first time."""

    #: Host and port.
    address = models.CharField(max_length=300, unique=True)
    accepted_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return self.address
