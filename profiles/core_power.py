"""Read the power of cores from profiles/power/cores.toml, or a file of the same form."""

from itertools import pairwise
from pathlib import Path

from mavcg.hardware.core_power import CorePower
from mavcg.profiles import schema
from mavcg.profiles.schema import refuse

OWN = Path(__file__).resolve().parent / "power" / "cores.toml"
MOST_MW = 1e6  # a figure in microwatts is more
MOST_KHZ = 100_000_000


def read_core_power(path: Path = OWN) -> dict[str, CorePower]:
    """Return the power of each core in a file, which has a table for each, with source and khz_mw = [[kHz, mW], ..].

    Raises: ProfileError naming file, key, value and remedy.
    """
    powers = {}
    for name, table in schema.read_toml(path).items():
        if not isinstance(table, dict):
            raise refuse(
                path, name, f"{schema.value_text(table)} is not a table", f"write [{name}] with source and khz_mw"
            )
        schema.only(path, table, ("source", "khz_mw"), f"{name}.")
        rows = table.get("khz_mw")
        key_path = f"{name}.khz_mw"
        if not isinstance(rows, list) or not rows or not all(_is_row(row) for row in rows):
            remedy = "give a list of pairs of kHz and mW, such as [[1800000, 320.5], [2400000, 845]]"
            raise refuse(path, key_path, f"{schema.value_text(rows)} is not a list of clocks with their power", remedy)
        if any(low[0] >= high[0] or low[1] >= high[1] for low, high in pairwise(rows)):
            raise refuse(
                path, key_path, "clocks and powers do not both rise", "sort the rows; leave out those that fall"
            )
        pairs = tuple((int(khz), float(mw)) for khz, mw in rows)
        powers[name] = CorePower(name, pairs, schema.source_of(path, table, f"{name}.source"))
    return powers


def _is_row(row: object) -> bool:
    if not isinstance(row, list) or len(row) != 2:
        return False
    khz, mw = row
    good = (
        isinstance(khz, int) and isinstance(mw, int | float) and not isinstance(khz, bool) and not isinstance(mw, bool)
    )
    return good and 0 < khz <= MOST_KHZ and 0 < mw <= MOST_MW
