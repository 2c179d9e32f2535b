"""The file of a database of costs: its usual path, and opening it."""

from collections.abc import Mapping
from pathlib import Path

from mavcg.choose.algorithms.costs.database import CostDb
from mavcg.errors import MavcgError
from mavcg.files.own_file import is_own_file, is_own_folder
from mavcg.files.store import cache_root

FILE_NAME = "costs.sqlite"


def default_path(environment: Mapping[str, str] | None = None) -> Path:
    """Return the path of this user's costs, in mavcg's cache folder.

    Raises: MavcgError if caching is off, or if somebody else can write to the folder or the file.
    """
    root = cache_root(environment)
    if root is None:
        raise MavcgError(
            "MAVCG_CACHE: is off, or there is no home folder, so no cost database is found; name a file by --db FILE"
        )
    path = root / FILE_NAME
    if not is_own_folder(path.parent) or (path.exists() and not is_own_file(path)):
        raise MavcgError(f"{path}: somebody else can write to it or its folder; name a file of your own by --db FILE")
    return path


def open_db(path: Path) -> CostDb:
    """Open the database in a file, which is created if missing, with its folder.

    Raises: MavcgError for a file that is not a database of costs, or cannot be read and written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MavcgError(f"{path}: cannot be opened ({error}); name another file") from None
    return CostDb(path)
