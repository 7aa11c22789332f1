"""Tables of transcripts: segments and their messages."""

from typing import Final

from django.db import models
from django.db.models.functions import Now

from checkpoints.models.packed_fields import CompressibleTextField
from checkpoints.models.session import Session
from checkpoints.seals.sealed_model import SealedModel


class Segment(SealedModel):
    """Part of a transcript that grows only at its end.

    A transcript is the path from a segment to its root: the first `parent_length` messages belong to the
    ancestors, the following ones to this segment. Compaction, an edit and a fork open a new segment at the
    common prefix, so that no message is stored twice.
    """

    sealed_fields = (
        "id",
        "parent",
        "parent_length",
        "created_at",
    )
    unsealed_fields = {
        "session": "a fork inherits the segments of a deleted origin",
        "row_seal": "the seal itself",
    }

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="segments")
    parent = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="children")
    parent_length = models.IntegerField(default=0)
    created_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"segment {self.pk} from {self.parent_length}"


#: Roles of the messages that people write, by the names that agents and sources of transcripts use.
PROMPT_ROLES: Final = ("Human", "User", "human", "user")


class Message(SealedModel):
    """One message, stored once. `position` counts from the start of the transcript, not of the segment.

    `body` is the canonical JSON text of the whole message; `chain` is the digest of this message and, through
    its predecessor's chain, of everything before it.
    """

    sealed_fields = (
        "segment",
        "position",
        "message_id",
        "role",
        "created_at",
        "chain",
    )
    unsealed_fields = {
        "id": "chosen by the database at the insert; what a row is called is sealed",
        "session": "a fork inherits the messages of a deleted origin; the segment is sealed",
        "body": "the chain is a digest of it",
        "row_seal": "the seal itself",
    }

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="messages", db_index=False)
    segment = models.ForeignKey(Segment, on_delete=models.CASCADE, related_name="messages", db_index=False)
    position = models.IntegerField()
    message_id = models.CharField(max_length=255, blank=True)
    role = models.CharField(max_length=32, blank=True)
    created_at = models.DateTimeField()
    body = CompressibleTextField()
    chain = models.BinaryField(max_length=32)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["segment", "position"], name="message_place"),)
        indexes = (
            # Entries of a conversation are found by their identifiers; most messages have none.
            models.Index(fields=["message_id"], condition=~models.Q(message_id=""), name="message_of_id"),
            # The prompts of a transcript of thousands of messages are found without reading the others.
            models.Index(
                fields=["segment", "position"], condition=models.Q(role__in=PROMPT_ROLES), name="message_prompt"
            ),
        )

    def __str__(self) -> str:
        return f"message {self.position}"
