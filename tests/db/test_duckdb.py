"""Why DuckDB is not the queue: a second process cannot open the file while one has it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb


def test_a_second_process_cannot_open_a_duckdb_file_not_even_to_read(tmp_path: Path) -> None:
    path = str(tmp_path / "jobs.duckdb")
    holder = duckdb.connect(path)
    holder.execute("CREATE TABLE jobs (id INTEGER)")
    for read_only in (False, True):
        program = f"import duckdb; duckdb.connect({path!r}, read_only={read_only})"
        second = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=False
        )
        assert second.returncode != 0
        assert "Could not set lock on file" in second.stderr
    holder.close()
