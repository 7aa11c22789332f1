from django.db import models
from django.db.models.functions import Now

from harness_site.accounts.models import ApiToken


class ApiWrite(models.Model):
    """Write that came with an `Idempotency-Key`, noted before it is done.

    `status` is None until its answer is known. `body` is the answer where it has no content of a session; other
    answers are built again from what is stored.
    """

    token = models.ForeignKey(ApiToken, on_delete=models.CASCADE)
    key = models.CharField(max_length=255)
    #: Digest of the method, the path and the body.
    digest = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField(null=True)
    body = models.TextField(default="")
    created_at = models.DateTimeField(db_default=Now(), db_index=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["token", "key"], name="one_write_of_a_key"),)

    def __str__(self) -> str:
        return self.key
