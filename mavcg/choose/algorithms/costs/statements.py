"""SQL statements of the database of costs (database.py)."""

from mavcg.choose.algorithms.costs.provider import IMPORTED, MEASURED, SIMULATED
from mavcg.choose.algorithms.costs.rows import BEFORE_KERNELS, BEFORE_TURNS, COLUMNS, KEY, VALUES, WARM

CREATE = f"""
CREATE TABLE IF NOT EXISTS costs (
    what TEXT NOT NULL, core TEXT NOT NULL, threads INTEGER NOT NULL, compiler TEXT NOT NULL, block INTEGER NOT NULL,
    caches TEXT NOT NULL, ms REAL NOT NULL, spread_ms REAL NOT NULL, runs INTEGER NOT NULL, kind TEXT NOT NULL,
    date TEXT NOT NULL, host TEXT NOT NULL, kernels TEXT NOT NULL DEFAULT '', turns INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY ({", ".join(KEY)})
)"""
PUT = f"INSERT OR REPLACE INTO costs ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"
# By a version of the file: what the next one has in addition.
ADDED = {
    BEFORE_KERNELS: "ALTER TABLE costs ADD COLUMN kernels TEXT NOT NULL DEFAULT ''",
    BEFORE_TURNS: "ALTER TABLE costs ADD COLUMN turns INTEGER NOT NULL DEFAULT 0",
}
# Imported costs do not replace those measured in this database with today's kernels.
IMPORT = (
    f"INSERT INTO costs ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))}) "
    f"ON CONFLICT ({', '.join(KEY)}) DO UPDATE SET {', '.join(f'{c} = excluded.{c}' for c in VALUES)} "
    f"WHERE costs.kind != '{MEASURED}' OR costs.kernels != ?"
)
# Simulated costs replace simulated ones, and measured ones of other kernels than today's.
PUT_SIMULATED = (
    f"INSERT INTO costs ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))}) "
    f"ON CONFLICT ({', '.join(KEY)}) DO UPDATE SET {', '.join(f'{c} = excluded.{c}' for c in VALUES)} "
    f"WHERE costs.kind = '{SIMULATED}' OR (costs.kind = '{MEASURED}' AND costs.kernels != ?)"
)
COST = "ms, spread_ms, runs, kind, turns"
# Measured costs are used only with the same compiler and kernels, imported costs always. For simulated costs the reader
# compares the last column with the cost's version, whose digest takes time to compute.
FIND = (
    f"SELECT {COST}, kernels FROM costs WHERE what = ? AND core = ? AND threads = ? AND caches = '{WARM}' AND "
    f"((compiler = ? AND (kernels = ? OR kind = '{SIMULATED}')) OR kind = '{IMPORTED}') AND (? = 0 OR block = ?) "
    f"ORDER BY kind = '{SIMULATED}', kind = '{IMPORTED}', compiler != ?, kernels != ?, date DESC, block"
)
FIND_ALL = (
    f"SELECT what, kind, compiler, kernels FROM costs WHERE core = ? AND threads = ? AND caches = '{WARM}' "
    "AND (? = 0 OR block = ?)"
)
