"""Read technologies from profiles/technologies/*.toml, from folders of MAVCG_PROFILES, or from a file by its path.

Each fact is { value, source }; docs/exploring.md describes the file.
"""

import difflib
import os
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from mavcg.errors import MavcgError
from mavcg.hardware.technology import ELEMENT_TYPES, MacCost, SizeTable, Technology
from mavcg.profiles import schema
from mavcg.profiles.folders import files
from mavcg.profiles.schema import Table, refuse

# The most that a fact can be: a figure in the wrong unit (fJ, nm2, mm2) lies outside.
MOST = {"pj": 1e4, "um2": 1e7, "pj_per_byte": 1e5, "um2_per_byte": 1e4}
_Sources = list[tuple[str, str]]


def find_technology(name_or_path: str, folder: Path | None = None) -> Technology:
    """Return a technology by its name, or by the path of its file, which contains "/" or ends in .toml.

    folder: folder that a relative path starts from; None for the current folder.
    Raises: MavcgError for an unknown name, with similar names; ProfileError as read_technology.
    """
    if os.sep in name_or_path or name_or_path.endswith(".toml"):
        return read_technology((folder or Path()) / name_or_path)
    known = files("technologies")
    if name_or_path not in known:
        near = difflib.get_close_matches(name_or_path, known, n=3, cutoff=0.5)
        raise MavcgError(
            f"technology {name_or_path!r}: no such technology; known: {', '.join(near or known)}; or give a file's "
            f"path, such as ./{name_or_path}.toml"
        )
    return read_technology(known[name_or_path])


def read_technology(path: Path) -> Technology:
    """Return a technology from its TOML file. Raises: ProfileError naming file, key, value and remedy."""
    table = schema.read_toml(path)
    schema.only(path, table, ("name", "description", "mac", "dram", "sram"))
    sources: _Sources = []
    macs = []
    of_types = _subtable(path, table, "mac")
    schema.only(path, of_types, ELEMENT_TYPES, "mac.")
    for name in ELEMENT_TYPES:
        of_type = _subtable(path, of_types, name, f"mac.{name}")
        schema.only(path, of_type, ("pj", "um2"), f"mac.{name}.")
        macs.append(MacCost(*(_figure(path, of_type, key, f"mac.{name}.{key}", sources) for key in ("pj", "um2"))))
    dram = _subtable(path, table, "dram")
    schema.only(path, dram, ("pj_per_byte",), "dram.")
    return Technology(
        name=schema.text(path, table, "name"),
        description=schema.text(path, table, "description"),
        macs=tuple(macs),
        sram_pj=_by_size(path, table, "pj_per_byte", sources),
        sram_um2=_by_size(path, table, "um2_per_byte", sources),
        dram_pj_per_byte=_figure(path, dram, "pj_per_byte", "dram.pj_per_byte", sources),
        sources=tuple(sources),
    )


def _subtable(path: Path, table: Table, key: str, key_path: str = "") -> Table:
    at = key_path or key
    return schema.table_of(path, table.get(key), at, f"write [{at}] with its facts below")


def _figure(path: Path, table: Table, key: str, key_path: str, sources: _Sources) -> float:
    value = schema.fact(path, table, key, sources, key_path)
    limited = Annotated[float, Meta(gt=0, le=MOST[key])]
    figure: float = schema.value_as(path, key_path, value, limited, f'write {key} = {{ value = ..., source = "..." }}')
    return figure


def _by_size(path: Path, table: Table, key: str, sources: _Sources) -> SizeTable:
    """Return the rows of [[sram]] that have a fact, by size.

    Raises: ProfileError for none, and for sizes that do not rise.
    """
    rows: list[tuple[int, float]] = []
    for number, row in enumerate(schema.tables(path, table, "sram")):
        key_path = f"sram[{number}]."
        schema.only(path, row, ("bytes", "pj_per_byte", "um2_per_byte"), key_path)
        size = schema.whole(path, row, "bytes", f"{key_path}bytes", 1, 1 << 40, unit="bytes")
        if key not in row:
            continue
        if rows and size <= rows[-1][0]:
            raise refuse(
                path,
                f"{key_path}bytes",
                f"{size} is not above the size of the row before it",
                "list the sizes ascending",
            )
        rows.append((size, _figure(path, row, key, f"{key_path}{key}", sources)))
    if not rows:
        raise refuse(path, "sram", f"no row has {key}", f"write [[sram]] with bytes and {key}")
    return tuple(rows)
