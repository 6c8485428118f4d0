#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Prints the events of a folder of Parquet as JSON, once as pyarrow reads them and once as DuckDB does: rows in the order of time."""

import json
import sys

import duckdb
import pyarrow.dataset

COLUMNS = ["time_ns", "name", "tid", "thread", "number"]


def with_pyarrow(folder):
    table = pyarrow.dataset.dataset(folder, partitioning="hive").to_table(columns=COLUMNS)
    table = table.sort_by([("time_ns", "ascending"), ("tid", "ascending"), ("number", "ascending")])
    return [list(row.values()) for row in table.to_pylist()]


def with_duckdb(folder):
    files = f"{folder}/*/*.parquet"
    query = f"SELECT {', '.join(COLUMNS)} FROM read_parquet(?, hive_partitioning = true) ORDER BY time_ns, tid, number"
    return [list(row) for row in duckdb.execute(query, [files]).fetchall()]


folder = sys.argv[1]
print(json.dumps({"pyarrow": with_pyarrow(folder), "duckdb": with_duckdb(folder)}))
