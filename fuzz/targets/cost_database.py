"""SQLite databases: of costs, of groups' costs, and of explorations."""

from pathlib import Path

from fuzz.mutation.databases import database_mutator
from fuzz.targets import call_target
from fuzz.targets._files import file_with

PACKAGES = (
    "mavcg.choose.algorithms.costs",
    "mavcg.files.database",
    "mavcg.accelerators.costs.kept",
    "mavcg.accelerators.explore.store",
)
mutate = database_mutator()


def run(data: bytes) -> None:
    """Open the file as each kind and read all that it has."""
    for read in (_read_costs, _read_groups, _read_exploration):
        path = file_with(data, "fuzzed.sqlite")  # anew: opening a file of no tables writes them
        for suffix in ("-journal", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        call_target(lambda read=read, path=path: read(path))  # type: ignore[misc]


def _read_costs(path: Path) -> None:
    from mavcg.choose.algorithms.costs.database_file import open_db
    from mavcg.choose.algorithms.costs.rows import Conversion
    from mavcg.specs.primitive import Layout

    with open_db(path) as database:
        len(database)
        database.outdated_costs("cortex-a55", 1, 0, "another compiler")
        database.provider("cortex-a55", 1, 0, "clang 21").conversion(Layout.HWC, Layout.CHW, 8, 4, 4)
        database.find(Conversion(Layout.HWC, Layout.CHW, 8, 4, 4), "cortex-a55", 1, 0, "clang 21")
        database.export(path.with_name("exported.json"))


def _read_groups(path: Path) -> None:
    from mavcg.accelerators.costs.kept import GroupCostFile

    with GroupCostFile(path) as file:
        for key, provider in file.rows("SELECT key, provider FROM group_costs"):
            file.get(key, provider)


def _read_exploration(path: Path) -> None:
    from mavcg.accelerators.explore.store import ExplorationStore

    with ExplorationStore(path) as store:
        store.tilings(), store.simulations(), store.predictions()
