"""The file of a database of costs: its usual path, and opening it."""

import sqlite3
from collections.abc import Mapping
from pathlib import Path

from mavcg.assembly.schedule_store import open_store
from mavcg.choose.algorithms.costs.database import WAIT_S, CostDb
from mavcg.errors import MavcgError
from mavcg.files.own_file import is_own_file
from mavcg.files.own_folder import is_own_folder

FILE_NAME = "costs.sqlite"


def default_path(environment: Mapping[str, str] | None = None) -> Path:
    """Return the path of this user's costs, in mavcg's cache folder.

    Raises: MavcgError if caching is off, or if somebody else can write to the folder or the file.
    """
    store = open_store(environment)
    if store is None:
        raise MavcgError(
            "MAVCG_CACHE: is off, or there is no home folder, so no cost database is found; name a file by --db FILE"
        )
    path = store.folder.parents[1] / FILE_NAME
    if not is_own_folder(path.parent) or (path.exists() and not is_own_file(path)):
        raise MavcgError(f"{path}: somebody else can write to it or its folder; name a file of your own by --db FILE")
    return path


def open_db(path: Path) -> "CostDb":
    """Open the database in a file, which is created if missing.

    Raises: MavcgError for a file that is not a database of costs, or cannot be read and written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)
    except (OSError, sqlite3.Error) as error:
        raise MavcgError(f"{path}: cannot be opened ({error}); name another file") from None
    database = CostDb(path, connection)
    try:
        database.prepare()
    except BaseException:
        connection.close()
        raise
    return database
