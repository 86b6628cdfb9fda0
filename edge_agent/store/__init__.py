"""One SQLite file: Peewee tables, one writer thread, short reads."""
