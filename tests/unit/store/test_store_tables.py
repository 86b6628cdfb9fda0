from __future__ import annotations

import pytest
from peewee import SchemaManager, SqliteDatabase

from edge_agent.store.tables import JSON_COLUMNS, TABLES, RequestLog, Result, insert_sql

PROMISED = {
    "result": "seq uid source model version captured_at clock_synced boot_id monotonic_ns width height objects media_id "
    "stages_us latency_us request_id",
    "request_log": "request_id model version source received_at input_bytes batch_size queue_us compute_us total_us status "
    "error",
    "model_version": "name version platform sha256 state loaded_at load_ms metrics error",
    "event": "seq uid at kind subject actor code args text detail",
    "log": "seq at level logger code text repeated",
    "media": "id path bytes kind created_at",
    "response_cache": "key model version value bytes created_at last_hit_at hits",
    "sync_sink": "name",
    "sync_range": "sink first_seq last_seq",
    "dead_letter": "sink uid reason",
    "meta": "key value",
}


@pytest.fixture
def db():
    opened = SqliteDatabase(":memory:")
    for table in TABLES:
        SchemaManager(table, opened).create_all(safe=True)
    yield opened
    opened.close()


@pytest.mark.parametrize("name", sorted(PROMISED))
def test_the_promised_tables_have_their_promised_columns_in_that_order(db, name):
    found = [row[1] for row in db.execute_sql('PRAGMA table_info("%s")' % name)]
    assert [column for column in found if column in PROMISED[name].split()] == PROMISED[name].split()


def test_there_is_no_table_but_the_promised_ones():
    assert {table._meta.table_name for table in TABLES} == set(PROMISED)


def test_numbers_are_never_given_twice(db):
    for table in ("result", "request_log", "event", "log", "dead_letter"):
        (sql,) = db.execute_sql("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        assert '"seq" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT' in sql


def test_old_sqlite_understands_the_tables(db):
    text = " ".join(row[0] or "" for row in db.execute_sql("SELECT sql FROM sqlite_master")).upper()
    for word in ("STRICT", "GENERATED", "RETURNING", "ON CONFLICT"):
        assert word not in text


def test_an_insert_names_every_column_once(db):
    assert insert_sql(RequestLog, with_key=False).count("?") == len(RequestLog._meta.sorted_field_names) - 1
    assert '"seq"' not in insert_sql(RequestLog, with_key=False)
    assert insert_sql(Result, with_key=True).startswith('INSERT INTO "result" ("seq", "uid", "source"')


def test_json_columns_exist():
    named = {name for table in TABLES for name in table._meta.sorted_field_names}
    assert named >= JSON_COLUMNS
