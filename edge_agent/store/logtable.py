"""Table `log`: identical lines folded into one row, the oldest deleted beyond a bound."""

from __future__ import annotations

from collections import OrderedDict
from typing import Dict, Iterable, List, NamedTuple, Tuple

from peewee import SqliteDatabase, fn

from edge_agent.store.tables import Log

#: an identical line within this many seconds of a row's first adds to it; later ones start a new row
FOLD_S = 60.0
#: different lines that are remembered for folding
_REMEMBERED = 256
#: old rows deleted with one commit, so that it stays short
_DELETE_MAX = 2000


class LogRow(NamedTuple):
    """A log line on its way; `seconds` is monotonic, for folding."""

    seconds: float
    at: str
    level: str
    logger: str
    code: str
    text: str

    @property
    def identity(self) -> Tuple[str, str, str, str]:
        """What makes two lines the same."""
        return self.level, self.logger, self.code, self.text


class _Seen(NamedTuple):
    seq: int
    seconds: float


class LogTable:
    """Writes log lines; remembers the newest rows to fold repeats into them."""

    def __init__(self, max_rows: int) -> None:
        self._max_rows = max_rows
        self._seen: OrderedDict[Tuple[str, str, str, str], _Seen] = OrderedDict()

    def forget(self) -> None:
        """After a rollback: the remembered rows may not be there."""
        self._seen.clear()

    def write(self, db: SqliteDatabase, rows: Iterable[LogRow]) -> None:
        """Insert the new lines, add the repeats to theirs, delete the oldest; within the caller's transaction."""
        repeats: Dict[int, List[LogRow]] = {}
        for row in rows:
            seen = self._seen.get(row.identity)
            if seen is not None and row.seconds - seen.seconds < FOLD_S:
                repeats.setdefault(seen.seq, []).append(row)
            else:
                self._insert(db, row)
        for seq, same in repeats.items():
            more = Log.update(repeated=Log.repeated + len(same), last_at=same[-1].at)
            more.where(Log.seq == seq).execute(db)
        self._trim(db)

    def _insert(self, db: SqliteDatabase, row: LogRow) -> None:
        seq = Log.insert(
            at=row.at, level=row.level, logger=row.logger, code=row.code, text=row.text, repeated=0, last_at=row.at
        ).execute(db)
        self._seen[row.identity] = _Seen(int(seq), row.seconds)
        self._seen.move_to_end(row.identity)
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)

    def _trim(self, db: SqliteDatabase) -> None:
        if not self._max_rows:
            return
        first, last = Log.select(fn.MIN(Log.seq), fn.MAX(Log.seq)).tuples().execute(db)[0]
        if first is not None and last - first >= self._max_rows:
            Log.delete().where(Log.seq <= min(last - self._max_rows, first + _DELETE_MAX)).execute(db)
