"""The tables of the one SQLite file, as technicians see them in the `sqlite3` shell.

Columns are added, never renamed or dropped, within a major version. `*_at` is RFC 3339 UTC text with milliseconds; once the
clock is found to have been wrong it is corrected in place, and `*_raw` then holds what was written first (NULL until then).
JSON is text.
"""

from __future__ import annotations

from typing import Any, Tuple, Type

from peewee import SQL, AutoField, BlobField, BooleanField, CompositeKey, IntegerField, Model, NodeList, TextField


class SequenceField(AutoField):  # type: ignore[misc,unused-ignore]
    """An integer key that SQLite never gives twice, not even after the newest row was deleted."""

    def ddl(self, ctx: Any) -> Any:
        """The column's definition with AUTOINCREMENT."""
        return NodeList((super().ddl(ctx), SQL("AUTOINCREMENT")))


class Table(Model):  # type: ignore[misc,unused-ignore]
    """Base of all tables; not bound to a file: statements name theirs."""


class Result(Table):
    """What a model saw in a picture."""

    seq = SequenceField()
    uid = TextField()
    source = TextField(index=True)
    model = TextField(index=True)
    version = TextField()
    captured_at = TextField(index=True)
    captured_at_raw = TextField(null=True)
    clock_synced = BooleanField()
    boot_id = TextField()
    monotonic_ns = IntegerField()
    width = IntegerField()
    height = IntegerField()
    objects = TextField()
    media_id = TextField(null=True)
    stages_us = TextField()
    latency_us = IntegerField()
    request_id = TextField()

    class Meta:
        """Name in the file."""

        table_name = "result"


class RequestLog(Table):
    """One request; a row whose `count` is above 1 stands for that many, with their bytes summed and their times averaged."""

    seq = SequenceField()
    request_id = TextField()
    model = TextField(index=True)
    version = TextField()
    source = TextField(index=True)
    received_at = TextField(index=True)
    received_at_raw = TextField(null=True)
    input_bytes = IntegerField()
    batch_size = IntegerField()
    queue_us = IntegerField()
    compute_us = IntegerField()
    total_us = IntegerField()
    status = TextField()
    error = TextField()
    count = IntegerField()

    class Meta:
        """Name in the file."""

        table_name = "request_log"


class ModelVersion(Table):
    """The last known state of each version of each model."""

    name = TextField()
    version = TextField()
    platform = TextField()
    sha256 = TextField()
    state = TextField()
    loaded_at = TextField(null=True)
    loaded_at_raw = TextField(null=True)
    load_ms = IntegerField(null=True)
    metrics = TextField()
    error = TextField()

    class Meta:
        """Name in the file."""

        table_name = "model_version"
        primary_key = CompositeKey("name", "version")


class Event(Table):
    """Something that people may want to know later; `kind` is `area.what`."""

    seq = SequenceField()
    uid = TextField()
    at = TextField(index=True)
    at_raw = TextField(null=True)
    kind = TextField()
    subject = TextField(index=True)
    actor = TextField()
    code = TextField()
    args = TextField()
    text = TextField()
    detail = TextField()

    class Meta:
        """Name in the file."""

        table_name = "event"


class Log(Table):
    """Warnings and worse, and what led to an error; `repeated` counts the same line's repeats, the last one at `last_at`."""

    seq = SequenceField()
    at = TextField(index=True)
    at_raw = TextField(null=True)
    level = TextField()
    logger = TextField()
    code = TextField()
    text = TextField()
    repeated = IntegerField()
    last_at = TextField()
    last_at_raw = TextField(null=True)

    class Meta:
        """Name in the file."""

        table_name = "log"


class Media(Table):
    """A kept picture; `id` is the SHA-256 of its bytes."""

    id = TextField(primary_key=True)
    path = TextField()
    bytes = IntegerField()
    kind = TextField()
    created_at = TextField(index=True)
    created_at_raw = TextField(null=True)

    class Meta:
        """Name in the file."""

        table_name = "media"


class ResponseCache(Table):
    """Answers that are given again to equal requests."""

    key = TextField(primary_key=True)
    model = TextField()
    version = TextField()
    value = BlobField()
    bytes = IntegerField()
    created_at = TextField()
    last_hit_at = TextField(index=True)
    hits = IntegerField()

    class Meta:
        """Name in the file."""

        table_name = "response_cache"
        indexes = ((("model", "version"), False),)


class SyncSink(Table):
    """A place that rows are sent to."""

    name = TextField(primary_key=True)
    paused = BooleanField()
    last_acked_at = TextField(null=True)
    error = TextField()

    class Meta:
        """Name in the file."""

        table_name = "sync_sink"


class SyncRange(Table):
    """Rows of one kind, first to last, that a sink has not acknowledged."""

    sink = TextField()
    kind = TextField()
    first_seq = IntegerField()
    last_seq = IntegerField()

    class Meta:
        """Name in the file."""

        table_name = "sync_range"
        primary_key = CompositeKey("sink", "kind", "first_seq")


class DeadLetter(Table):
    """A row that a sink refused for good."""

    seq = SequenceField()
    sink = TextField(index=True)
    uid = TextField()
    reason = TextField()
    at = TextField()
    at_raw = TextField(null=True)

    class Meta:
        """Name in the file."""

        table_name = "dead_letter"


class Meta(Table):
    """Facts about the file itself: schema version, generation, board serial, last good clock, how the last run ended."""

    key = TextField(primary_key=True)
    value = TextField()

    class Meta:
        """Name in the file."""

        table_name = "meta"


TABLES: Tuple[Type[Table], ...] = (
    Result, RequestLog, ModelVersion, Event, Log, Media, ResponseCache, SyncSink, SyncRange, DeadLetter, Meta,
)  # fmt: skip

#: columns that hold JSON text, in any table
JSON_COLUMNS = frozenset({"objects", "stages_us", "metrics", "args", "detail"})


def insert_sql(table: Type[Table], with_key: bool) -> str:
    """An INSERT of all columns in their order, for executemany; without its key SQLite gives `seq` itself."""
    names = [field.column_name for field in table._meta.sorted_fields if with_key or field.column_name != "seq"]
    return 'INSERT INTO "%s" (%s) VALUES (%s)' % (
        table._meta.table_name,
        ", ".join('"%s"' % name for name in names),
        ", ".join("?" * len(names)),
    )
