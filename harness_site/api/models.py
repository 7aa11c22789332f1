"""Tables of answered API writes, by idempotency key, and of observed spans."""

from django.db import models
from django.db.models.functions import Now

from checkpoints.models import Workspace
from harness_site.accounts.models import ApiToken


class ApiWrite(models.Model):
    """Write that came with an `Idempotency-Key`, noted before it is done.

    `status` is None until its answer is known. `body` is the answer where it has no content of a session; other
    answers are built again from what is stored. `repeated` says that another request with the key has come before that.
    `call` is the number of the tool call that this write was told to run:
    of all writes, one is told so.
    """

    #: No index of its own: the server would use it to look up a key while it has no statistics of the table, and read
    #: all writes of the token.
    token = models.ForeignKey(ApiToken, on_delete=models.CASCADE, db_index=False)
    key = models.CharField(max_length=255)
    #: Digest of the method, the path and the body.
    digest = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField(null=True)
    body = models.TextField(default="")
    repeated = models.BooleanField(db_default=False)
    call = models.BigIntegerField(null=True, unique=True)
    created_at = models.DateTimeField(db_default=Now(), db_index=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["token", "key"], name="one_write_of_a_key"),)

    def __str__(self) -> str:
        return self.key


class ObservedSpan(models.Model):
    """Span of OpenTelemetry as it was received. A session is built of all spans of its conversation or trace.

    `session_id` is that of the session; `body` is the compressed JSON of the span with its resource.
    """

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="+", db_index=False)
    session_id = models.CharField(max_length=255)
    trace_id = models.CharField(max_length=32)
    span_id = models.CharField(max_length=16)
    body = models.BinaryField()
    received_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["workspace", "trace_id", "span_id"], name="one_span_of_a_trace"),
        )
        indexes = (models.Index(fields=["workspace", "session_id"], name="spans_of_a_session"),)

    def __str__(self) -> str:
        return f"{self.trace_id}/{self.span_id}"
