"""Tables of the search index, and of the totals of the overview."""

from typing import Final

from django.db import models
from django.utils.translation import gettext_lazy as _

from checkpoints.models import Session, Workspace


class Kind(models.TextChoices):
    """Source of a passage."""

    MESSAGE = "message", _("Message")
    CALL = "call", _("Tool call")
    DECISION = "decision", _("Decision")
    SESSION = "session", _("Title and id")


class Problem(models.TextChoices):
    """Reason why a text cannot be found, or only in part."""

    SKIPPED = "skipped", _("could not be read")
    CUT = "cut", _("only its beginning can be found")


class Passage(models.Model):
    """A searchable piece of text, masked under the rules of its workspace.

    Its key is the time of the text, see `index_writer`.

    There are no foreign key constraints to the store, so that no agent waits for this table. Rows of deleted sources
    are removed by the triggers of `index_delete_triggers`.
    """

    id = models.BigIntegerField(primary_key=True)
    workspace = models.ForeignKey(
        Workspace, on_delete=models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False
    )
    session = models.ForeignKey(
        Session, on_delete=models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False
    )
    kind = models.CharField(max_length=8, choices=Kind)
    #: Key of the message, call, decision or session, and index of this piece of its text, from 0.
    source = models.BigIntegerField()
    part = models.IntegerField()
    #: Position of a message; None for anything else.
    position = models.IntegerField(null=True)
    #: Revision of a call when it was indexed, and whether it may still change.
    revision = models.IntegerField(default=0)
    open = models.BooleanField(default=False)
    #: Day of the text, with which the index finds new texts without reading all old ones.
    era = models.IntegerField()
    text = models.TextField()
    #: The text in lower case, as a case-sensitive comparison is many times as fast.
    folded = models.TextField()
    #: Letter pairs of scripts in which one or two letters are a word.
    dense = models.TextField(blank=True)
    #: Set on the first piece of a text that is not indexed completely.
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
    """Searchable properties of sessions beside the columns of their rows."""

    LABEL = "label", _("Label")
    TOOL = "tool", _("Tool")
    DECIDED_BY = "decided_by", _("Decided by")
    INTERRUPTED = "interrupted", _("Has interruptions")
    HOUR = "hour", _("Active in")
    PROJECT = "project", _("Project")
    BRANCH = "branch", _("Branch")
    MODEL = "model", _("Model")
    PROGRAM = "program", _("Version of the program")
    UNDIVIDED = "undivided", _("Not divided by model")


class Fact(models.Model):
    """A searchable property of a session: a label, a called tool, a person who decided, an interrupted call, an hour of
    activity (UTC, such as 2026-11-25T14), a project, branch, model or version of the program that a message names, or
    that a part of its cost or tokens is not divided between its models.

    Like the passages, facts are derived from the store by the indexer and deleted with their session.
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
        # A list in order of activity looks up one session after the other: twice as fast where an index begins with the
        # session. The workspace follows from the session; with it, a look-up reads the index alone.
        constraints = (models.UniqueConstraint(fields=["session", "trait", "value", "workspace"], name="fact_once"),)
        indexes = (models.Index(fields=["workspace", "trait", "value", "-session"], name="fact_of_workspace"),)

    def __str__(self) -> str:
        return f"{self.trait}: {self.value}"


class Sums(models.Model):
    """Numbers of one hour or one day (UTC), which pages add up for longer periods, and for the days of a time zone.

    Each day has its sums, and those of its hours until `hourly_sums_retention.delete_outdated_hourly_sums` deletes
    these. In the indexes, `hourly` stands before the time, so that a range of days does not read all of their hours.
    """

    workspace = models.ForeignKey(
        Workspace, on_delete=models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False
    )
    start = models.DateTimeField()
    #: True for the numbers of one hour, False for those of a day.
    hourly = models.BooleanField()

    class Meta:
        abstract = True


#: Columns of `SessionSums` that count something; the other amount is the cost.
SESSION_COUNTS: Final = (
    "sessions",
    "completed",
    "failed",
    "undecided",
    "ready",
    "cancelled",
    "estimated",
    "unpriced",
    "tokens",
)


class SessionSums(Sums):
    """Outcomes and cost of the sessions of one agent that started in a period."""

    agent = models.CharField(max_length=200, blank=True)
    sessions = models.IntegerField()
    completed = models.IntegerField()
    failed = models.IntegerField()
    undecided = models.IntegerField()
    ready = models.IntegerField()
    cancelled = models.IntegerField()
    #: Those whose cost is an estimate from a price table, and those whose cost is unknown.
    estimated = models.IntegerField()
    unpriced = models.IntegerField()
    tokens = models.BigIntegerField()
    cost = models.DecimalField(max_digits=18, decimal_places=6)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["workspace", "hourly", "start", "agent"], name="session_sums"),)

    def __str__(self) -> str:
        return f"{self.agent} from {self.start}"


class ModelSums(Sums):
    """Tokens and cost of the sessions of one agent that started in a period, by model.

    `model` is empty for sessions whose models are unknown, and for the tokens and the cost that nothing divides between
    the models of their session; `several` is True for the latter. A session counts once for each of its models.
    """

    agent = models.CharField(max_length=200, blank=True)
    model = models.CharField(max_length=255, blank=True)
    several = models.BooleanField(default=False)
    sessions = models.IntegerField()
    tokens = models.BigIntegerField()
    cost = models.DecimalField(max_digits=18, decimal_places=6)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["workspace", "hourly", "start", "agent", "model", "several"], name="model_sums"
            ),
        )

    def __str__(self) -> str:
        return f"{self.model} from {self.start}"


class ToolSums(Sums):
    """Outcomes of the finally settled calls of one tool by one agent that were issued in a period."""

    agent = models.CharField(max_length=200, blank=True)
    tool = models.CharField(max_length=200)
    calls = models.IntegerField(default=0)
    failed = models.IntegerField(default=0)
    interrupted = models.IntegerField(default=0)
    #: Number and total duration of the calls that ended without an interruption.
    timed = models.IntegerField(default=0)
    seconds = models.FloatField(default=0)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["workspace", "hourly", "start", "agent", "tool"], name="tool_sums"),
        )

    def __str__(self) -> str:
        return f"{self.tool} from {self.start}"


class DecisionSums(Sums):
    """Number of final decisions of people about calls of one agent that came after about the same waiting time.

    `wait` is the number of a class of waiting times, see `hourly_call_and_decision_sums.convert_seconds_to_wait_class`.
    """

    agent = models.CharField(max_length=200, blank=True)
    wait = models.SmallIntegerField()
    decisions = models.IntegerField(default=0)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["workspace", "hourly", "start", "agent", "wait"], name="decision_sums"),
        )

    def __str__(self) -> str:
        return f"{self.decisions} decisions from {self.start}"


class Progress(models.Model):
    """Indexing progress of one kind of text."""

    kind = models.CharField(max_length=8, choices=Kind, primary_key=True)
    #: All keys from `older` to this one are indexed, including those of transactions that ended late.
    settled = models.BigIntegerField(default=0)
    #: Largest indexed key, and the transaction id from which all transactions began later.
    reached = models.BigIntegerField(default=0)
    horizon = models.BigIntegerField(default=0)
    #: Keys up to this one existed before the index and are not read yet, newest first; 0 if none is left.
    older = models.BigIntegerField(default=0, db_default=0)
    #: Last time when an indexer found nothing to do.
    complete_at = models.DateTimeField(null=True)
    #: Moment whose sessions the sums of the overview contain, in the row of sessions.
    sums_at = models.DateTimeField(null=True)
    #: End of the lease of the process that is indexing.
    leased_until = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.kind}: {self.reached}"
