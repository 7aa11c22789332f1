"""Tables of the states of agent frameworks: content-addressed blobs, states, and writes of channels."""

from typing import Any

from django.db import models
from django.db.models.functions import Now

from checkpoints.formats import digests, plain_and_delta_compression
from checkpoints.models.packed_fields import PackedBinaryField, PackedDigestField, PackedTextField
from checkpoints.models.session import Session
from checkpoints.seals.sealed_model import SealedModel

#: Largest length of a namespace, in characters.
NAMESPACE_LENGTH = 1000


class Blob(models.Model):
    """Opaque content of a session, stored once: bytes of a framework's own serializer, and the name of their format.

    `digest` is computed from `type` and the bytes before compression, and verified when they are read. The bytes may be
    stored as the difference from a message of the session, which has the same text;
    `versions.opaque_bytes_as_message_differences` stores them alone before that message is deleted. Blobs that no
    state and no write of the session reaches are removed with the last one that did.
    """

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="blobs", db_index=False)
    digest = PackedDigestField(max_length=32)
    type = models.CharField(max_length=40)
    content = models.BinaryField()
    compressed = models.BooleanField(default=False)
    #: Place of the message from which the content is a difference.
    base_segment = models.BigIntegerField(null=True)
    base_position = models.IntegerField(null=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["session", "digest"], name="blob_of_session"),)

    def __str__(self) -> str:
        return self.digest

    def read_content(self, base: str | None = None) -> bytes:
        """Return the bytes before compression.

        Args:
            base: JSON text of the message from which they are a difference.

        Returns:
            The bytes.

        Raises:
            ValueError: They are not those of the digest.
        """
        return _decode_and_verify_content(self, base)


def _decode_and_verify_content(row: Any, base: str | None) -> bytes:
    if not isinstance(row.content, bytes | memoryview):  # SQLite stores any type in any column
        raise ValueError("its content is not bytes")
    content = bytes(row.content)
    if base is not None:
        content = plain_and_delta_compression.decompress_difference(
            content, plain_and_delta_compression.build_compression_base_from_message(row.type, base)
        )
    elif row.compressed:
        content = plain_and_delta_compression.decompress(content)
    if digests.digest_blob(row.type, content) != row.digest:
        raise ValueError("its content does not match its digest")
    return content


class FrameworkState(SealedModel):
    """State of a foreign framework at one step, from which the framework resumes.

    States of a session form a tree by `parent_id`, one for each namespace: a subgraph has its own. `body` and
    `metadata` are opaque bytes, `channels` is canonical JSON: for each channel its version and
    the digest of its value, or null if it has none.
    """

    counted_in_head = True
    sealed_fields = (
        "session",
        "namespace",
        "state_id",
        "parent_id",
        "run_key",
        "body_type",
        "body",
        "metadata_type",
        "metadata",
        "channels",
        "created_at",
    )
    unsealed_fields = {
        "id": "chosen by the database at the insert; what a row is called is sealed",
        "row_seal": "the seal itself",
    }

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="framework_states", db_index=False)
    namespace = models.CharField(max_length=NAMESPACE_LENGTH, blank=True)
    state_id = models.CharField(max_length=255)
    parent_id = models.CharField(max_length=255, blank=True)
    #: Identifier that the framework gives the run or the save which made it; empty if it gives none.
    run_key = models.CharField(max_length=255, blank=True)
    body_type = models.CharField(max_length=40)
    body = PackedBinaryField()
    metadata_type = models.CharField(max_length=40)
    metadata = PackedBinaryField()
    channels = PackedTextField(default="{}")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["session", "namespace", "state_id"], name="framework_state_place"),
        )
        indexes = (models.Index(fields=["run_key"], condition=~models.Q(run_key=""), name="framework_state_of_run"),)

    def __str__(self) -> str:
        return self.state_id


class FrameworkWrite(SealedModel):
    """Value that a task of a foreign framework wrote to a channel after a state, and that no later one contains yet.

    `position` is the place among the writes of the task; the framework gives special channels negative ones. The
    state may be stored later than its writes.

    The value is the blob of `digest`, or, if `content` is not null, in this row as in a blob: a value that no other row
    has.
    """

    counted_in_head = True
    sealed_fields = (
        "session",
        "namespace",
        "state_id",
        "task_id",
        "position",
        "task_path",
        "channel",
        "digest",
    )
    unsealed_fields = {
        "id": "chosen by the database at the insert; what a row is called is sealed",
        "row_seal": "the seal itself",
        "type": "the digest is computed from it",
        "content": "the digest is computed from it",
        "compressed": "the digest is computed from the content before compression",
        "base_segment": "the digest is computed from the content before compression",
        "base_position": "the digest is computed from the content before compression",
    }

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="framework_writes", db_index=False)
    namespace = models.CharField(max_length=NAMESPACE_LENGTH, blank=True)
    state_id = models.CharField(max_length=255)
    task_id = models.CharField(max_length=255)
    position = models.IntegerField()
    task_path = models.TextField(blank=True)
    channel = models.CharField(max_length=255)
    digest = PackedDigestField(max_length=32)
    type = models.CharField(max_length=40, blank=True)
    content = models.BinaryField(null=True)
    compressed = models.BooleanField(default=False)
    base_segment = models.BigIntegerField(null=True)
    base_position = models.IntegerField(null=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["session", "namespace", "state_id", "task_id", "position"], name="framework_write_place"
            ),
        )

    def __str__(self) -> str:
        return f"{self.channel} by {self.task_id}"

    def read_content(self, base: str | None = None) -> bytes:
        """Return the bytes in this row, as `Blob.read_content` does."""
        return _decode_and_verify_content(self, base)
