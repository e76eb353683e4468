"""Reads a Parquet file with pyarrow and DuckDB, and compares it with what was to be written.

Arguments: the file, and a file with one JSON object a row, whose values are texts or null.
"""

import datetime
import json
import sys
from decimal import Decimal

import duckdb
import pyarrow
import pyarrow.parquet

TYPES = {
    "int": (pyarrow.int64(), "BIGINT", int),
    "small": (pyarrow.decimal128(18, 4), "DECIMAL(18,4)", Decimal),
    "large": (pyarrow.decimal128(38, 9), "DECIMAL(38,9)", Decimal),
    "day": (pyarrow.date32(), "DATE", datetime.date.fromisoformat),
    "at": (
        pyarrow.timestamp("us", tz="UTC"),
        "TIMESTAMP WITH TIME ZONE",
        lambda text: datetime.datetime.fromisoformat(text.replace("Z", "+00:00")),
    ),
    "is": (pyarrow.bool_(), "BOOLEAN", lambda text: text == "true"),
    "text": (pyarrow.string(), "VARCHAR", str),
}


def main(file, expected):
    with open(expected) as lines:
        expected = [json.loads(line) for line in lines]
    rows = [
        {
            name: None if row[name] is None else read(row[name])
            for name, (_, _, read) in TYPES.items()
        }
        for row in expected
    ]
    table = pyarrow.parquet.read_table(file)
    for name, (kind, _, _) in TYPES.items():
        assert table.schema.field(name).type == kind, (name, table.schema)
    found = table.to_pylist()
    assert len(found) == len(rows), (len(found), len(rows))
    for index, (one, other) in enumerate(zip(found, rows)):
        assert one == other, ("pyarrow", index, one, other)
    # Times as numbers: DuckDB needs another package for time zones.
    names = ", ".join(f'epoch_us("{name}")' if name == "at" else f'"{name}"' for name in TYPES)
    relation = duckdb.sql(f"SELECT * FROM read_parquet('{file}')")
    kinds = dict(zip(relation.columns, map(str, relation.types)))
    assert kinds == {name: kind for name, (_, kind, _) in TYPES.items()}, kinds
    epoch = datetime.datetime.fromtimestamp(0, datetime.timezone.utc)
    for index, (one, other) in enumerate(zip(duckdb.sql(f"SELECT {names} FROM read_parquet('{file}')").fetchall(), rows)):
        if other["at"] is not None:
            other["at"] = (other["at"] - epoch) // datetime.timedelta(microseconds=1)
        assert list(one) == list(other.values()), ("DuckDB", index, one, other)
    print(f"{len(rows)} rows")


main(*sys.argv[1:])
