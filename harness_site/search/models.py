from django.db import models

from checkpoints.models import Session, Workspace


class Kind(models.TextChoices):
    """What a passage is taken from."""

    MESSAGE = "message", "Message"
    CALL = "call", "Tool call"
    DECISION = "decision", "Decision"
    SESSION = "session", "Title and id"


class Problem(models.TextChoices):
    """Why a text cannot be found, or only in part."""

    SKIPPED = "skipped", "could not be read"
    CUT = "cut", "only its beginning can be found"


class Passage(models.Model):
    """A piece of text that can be found, masked as the workspace masks it.

    The store knows nothing of this table: no constraint leads from here to there, so that no agent ever waits for it.
    What is deleted there leaves by the triggers of `leaving`.
    """

    workspace = models.ForeignKey(
        Workspace, on_delete=models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False
    )
    session = models.ForeignKey(
        Session, on_delete=models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False
    )
    kind = models.CharField(max_length=8, choices=Kind)
    #: The key of the message, call or session, and which piece of its text this is, from 0.
    source = models.BigIntegerField()
    part = models.IntegerField()
    #: Of a message; None for anything else.
    position = models.IntegerField(null=True)
    #: Of a call: the revision it was read at, and whether it may still change.
    revision = models.IntegerField(default=0)
    open = models.BooleanField(default=False)
    #: The age of the passage, in large steps: with it the index finds what is new without looking at all that is old.
    era = models.IntegerField()
    text = models.TextField()
    #: The same in lower case: comparing letter by letter is many times as quick as doing so without regard to case.
    folded = models.TextField()
    #: The pairs of letters of scripts in which one or two letters are a word.
    dense = models.TextField(blank=True)
    #: Of the first piece of a text that is not in the index as a whole.
    problem = models.CharField(max_length=8, choices=Problem, null=True)  # noqa: DJ001 - SQLite adds it without a copy

    class Meta:
        constraints = (models.UniqueConstraint(fields=["kind", "source", "part"], name="passage_place"),)
        indexes = (
            models.Index(fields=["source"], condition=models.Q(open=True), name="passage_open"),
            models.Index(fields=["session", "-id"], name="passage_of_session"),
            models.Index(
                fields=["workspace", "-id"], condition=models.Q(problem__isnull=False), name="passage_problem"
            ),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.source}, part {self.part}"


class Trait(models.TextChoices):
    """What sessions are told apart by, beside what stands in their own row."""

    LABEL = "label", "Label"
    TOOL = "tool", "Tool"
    DECIDED_BY = "decided_by", "Decided by"
    INTERRUPTED = "interrupted", "Has interruptions"
    DAY = "day", "Active on"


class Fact(models.Model):
    """That a session has a label, has called a tool, was decided about by somebody, has had a call interrupted, or was
    active on a day (UTC, as ISO writes it).

    Like the passages, these are read off the store by whoever makes the index, and leave with their session.
    """

    workspace = models.ForeignKey(
        Workspace, on_delete=models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False
    )
    session = models.ForeignKey(
        Session, on_delete=models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False
    )
    trait = models.CharField(max_length=12, choices=Trait)
    value = models.CharField(max_length=255, blank=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["session", "trait", "value"], name="fact_once"),)
        indexes = (models.Index(fields=["workspace", "trait", "value", "-session"], name="fact_of_workspace"),)

    def __str__(self) -> str:
        return f"{self.trait}: {self.value}"


class SessionDay(models.Model):
    """What became of the sessions of one agent that began on one day (UTC), and what they have cost so far."""

    workspace = models.ForeignKey(
        Workspace, on_delete=models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False
    )
    day = models.DateField()
    agent = models.CharField(max_length=200, blank=True)
    sessions = models.IntegerField()
    completed = models.IntegerField()
    failed = models.IntegerField()
    cost = models.DecimalField(max_digits=18, decimal_places=6)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["workspace", "day", "agent"], name="agent_day"),)

    def __str__(self) -> str:
        return f"{self.agent} on {self.day}"


class ToolDay(models.Model):
    """How the calls of one tool went that were issued on one day (UTC) and are settled for good."""

    workspace = models.ForeignKey(
        Workspace, on_delete=models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False
    )
    day = models.DateField()
    tool = models.CharField(max_length=200)
    calls = models.IntegerField(default=0)
    failed = models.IntegerField(default=0)
    interrupted = models.IntegerField(default=0)
    #: Of the calls that were not interrupted and have ended: how many, and how long they took together.
    timed = models.IntegerField(default=0)
    seconds = models.FloatField(default=0)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["workspace", "day", "tool"], name="tool_day"),)

    def __str__(self) -> str:
        return f"{self.tool} on {self.day}"


class Progress(models.Model):
    """How far the index has come with one kind of text."""

    kind = models.CharField(max_length=8, choices=Kind, primary_key=True)
    #: Everything from `older` up to this key is in the index, also what was written by transactions that ended late.
    settled = models.BigIntegerField(default=0)
    #: The largest key that is in it, and the transaction from which on all have begun later.
    reached = models.BigIntegerField(default=0)
    horizon = models.BigIntegerField(default=0)
    #: Up to this key, what was there before the index waits to be read, from the newest on; 0 when nothing does.
    older = models.BigIntegerField(default=0, db_default=0)
    #: When somebody last found nothing more to do.
    complete_at = models.DateTimeField(null=True)
    #: One process at a time does the work.
    leased_until = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.kind}: {self.reached}"
