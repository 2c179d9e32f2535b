"""Stores every figure of a fleet in the cost database, with its board, clock and temperature."""

import datetime
from collections.abc import Sequence

from mavcg.choose.algorithms.costs.cost_version import kernel_version
from mavcg.choose.algorithms.costs.database import CostDb, Record, compiler_version
from mavcg.choose.algorithms.costs.rows import text_of
from mavcg.lab.fleet.board_pool import Attempt
from mavcg.lab.runners.bench_lines import InterleavedTimes, JobTimes
from mavcg.lab.tuning.work_list import Job

_CREATE = (
    "CREATE TABLE IF NOT EXISTS board_figures (what TEXT NOT NULL, core TEXT NOT NULL, threads INTEGER NOT NULL, "
    "compiler TEXT NOT NULL, block INTEGER NOT NULL, kernels TEXT NOT NULL, board TEXT NOT NULL, type TEXT NOT NULL, "
    "interleaved INTEGER NOT NULL, ms REAL, spread_ms REAL, verdict TEXT NOT NULL, counts INTEGER NOT NULL, "
    "khz_before INTEGER, khz_after INTEGER, celsius_before REAL, celsius_after REAL, checksum TEXT NOT NULL, "
    "date TEXT NOT NULL)"
)
_PUT = f"INSERT INTO board_figures VALUES ({', '.join('?' * 19)})"


def put_figures(
    database: CostDb, record: Record, kind: str, jobs: Sequence[Job], attempts: Sequence[Attempt], accepted: bool
) -> None:
    """Add a row for each job that was timed.

    The time, in ms, is the median for a job measured alone, and the fastest round for an interleaved job. record: of
    the core; its `what` is not used. jobs: of the program. accepted: True if the attempts count.
    Raises: MavcgError for a full disk.
    """
    rows = []
    date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    for attempt in attempts:
        for result in attempt.results:
            if not isinstance(result, JobTimes | InterleavedTimes):
                continue
            operation = jobs[result.job].what
            rows.append(
                (
                    text_of(operation),
                    record.core,
                    record.threads,
                    compiler_version(),
                    record.block,
                    kernel_version(operation),
                    attempt.board,
                    kind,
                    int(result.interleaved),
                    result.run_ms,
                    result.spread_ms,
                    attempt.verdict,
                    int(accepted),
                    result.before.khz,
                    result.after.khz,
                    result.before.celsius,
                    result.after.celsius,
                    result.checksum,
                    date,
                )
            )
    if rows:
        with database.transaction() as connection:
            connection.execute(_CREATE)
            connection.executemany(_PUT, rows)
