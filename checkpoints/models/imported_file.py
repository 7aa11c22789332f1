"""Table of the files that were imported, and how far each was read."""

from django.db import models
from django.db.models.functions import Now

from checkpoints.models.workspace import Workspace


class ImportedFile(models.Model):
    """File of transcripts as an import read it last, so that an unchanged file is not read again.

    `sessions` is the canonical JSON list of the ids of its sessions. If one of them is deleted, or if `live` is set
    because the transcript may go on, the file is read again.
    """

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="+", db_index=False)
    #: Digest of `path`, because a path may be too long for an index.
    path_digest = models.CharField(max_length=64)
    path = models.TextField()
    format = models.CharField(max_length=40, blank=True)
    size = models.BigIntegerField()
    modified_ns = models.BigIntegerField()
    sessions = models.TextField(default="[]")
    live = models.BooleanField(default=False)
    read_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = (models.UniqueConstraint(fields=["workspace", "path_digest"], name="imported_file_path"),)
        indexes = (models.Index(fields=["workspace", "-read_at"], name="imported_file_newest"),)

    def __str__(self) -> str:
        return self.path
