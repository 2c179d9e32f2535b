"""Read the power of cores from profiles/power/cores.toml, or a file of the same form."""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from mavcg.hardware.core_power import CorePower
from mavcg.profiles import schema
from mavcg.profiles.schema import refuse

OWN = Path(__file__).resolve().parent / "power" / "cores.toml"
MOST_MW = 1e6  # a figure in microwatts is more
MOST_KHZ = 100_000_000
_Clock = Annotated[int, Meta(ge=1, le=MOST_KHZ, description=f"a clock in kHz from 1 to {MOST_KHZ}")]
_Milliwatts = Annotated[float, Meta(gt=0, le=MOST_MW, description=f"a power in mW above 0 and at most {MOST_MW:g}")]
_ROWS = "a list of clocks with their power"


@dataclass(frozen=True)
class _Power:
    """The table of a core."""

    khz_mw: Annotated[
        tuple[Annotated[tuple[_Clock, _Milliwatts], Meta(description="a clock with its power")], ...],
        Meta(min_length=1, description=_ROWS, examples=["[[1800000, 320.5], [2400000, 845]]"]),
    ]
    source: str = ""


def read_core_power(path: Path = OWN) -> dict[str, CorePower]:
    """Return the power of each core in a file, which has a table for each, with source and khz_mw = [[kHz, mW], ..].

    Raises: ProfileError naming file, key, value and remedy.
    """
    powers = {}
    for name, table in schema.read_toml(path).items():
        rows = schema.value_as(path, name, table, _Power, f"write [{name}] with source and khz_mw").khz_mw
        key_path = f"{name}.khz_mw"
        if any(low[0] >= high[0] or low[1] >= high[1] for low, high in pairwise(rows)):
            raise refuse(
                path, key_path, "clocks and powers do not both rise", "sort the rows; leave out those that fall"
            )
        powers[name] = CorePower(name, rows, schema.source_of(path, table, f"{name}.source"))
    return powers
