"""Read accelerators from JSON or TOML files in the format of e-PlaNNer (figure 6.1): those of mavcg and the user's own.

As for cores and boards, a file in accelerators/ of a folder of MAVCG_PROFILES replaces mavcg's file of the same name.
"""

import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from mavcg.errors import MavcgError, ProfileError
from mavcg.files.decode import json_document, read_text
from mavcg.hardware.accelerator import DIMENSIONS, Accelerator, MemoryLevel
from mavcg.profiles import schema
from mavcg.profiles.folders import SUFFIXES, files
from mavcg.profiles.schema import refuse, toml_of, value_text

KEYS = ("name", "source", "bandwidth", "frequency", "mem_size", "levels", "pe_len", "pe_mapping")
LEVEL_KEYS = ("name", "mem_size", "bandwidth", "source")
KIB = 1024
# Limits above all real machines, so that a figure in the wrong unit (MB/s, Hz, bytes) is recognised by its size.
MOST = {"bandwidth": 100_000, "frequency": 100, "mem_size": 1 << 30, "pe_len": 1 << 16}
# Slower is nothing: times and metrics would leave the numbers that a computer has.
LEAST = {"bandwidth": 1e-6, "frequency": 1e-6}
UNITS = {"bandwidth": "GB/s", "frequency": "GHz", "mem_size": "KB", "pe_len": "processing elements"}
OPERANDS = ("input", "weight", "output")
MEM_SIZE_WAY_OUT = "write mem_size = [input, weight, output] in KB, or one number for a memory that all share"

_ACCELERATOR = Annotated[dict[str, Any], Meta(description="an accelerator")]
_NAME = Annotated[str, Meta(pattern=r"\S", description="text")]
_LEVELS = Annotated[tuple[dict[str, Any], ...], Meta(min_length=1, description="a list of memories")]
_PAIR = Annotated[tuple[Any, Any], Meta(description="a pair of lengths")]
_LOOP = Annotated[
    str, Meta(pattern=f"^({'|'.join(DIMENSIONS)})$", description=f"one of the loops {', '.join(DIMENSIONS)}")
]
_LOOPS = Annotated[tuple[_LOOP, ...], Meta(description="a list of loops")]
_MAPPING = Annotated[tuple[_LOOPS, _LOOPS], Meta(description="a pair of lists")]
_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*')


def find_accelerator(name_or_path: str) -> Accelerator:
    """Return an accelerator by its name, or by the path of its file, which contains "/" or ends in .json or .toml.

    Raises: MavcgError for an unknown name, with similar names; ProfileError as read_accelerator.
    """
    if os.sep in name_or_path or name_or_path.endswith(SUFFIXES["accelerators"]):
        return read_accelerator(Path(name_or_path))
    known = files("accelerators")
    if name_or_path in known:
        return read_accelerator(known[name_or_path])
    near = difflib.get_close_matches(name_or_path.lower().replace("_", "-"), known, n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(near)}?" if near else f"known: {', '.join(known)};"
    raise MavcgError(
        f"--accelerator {name_or_path}: no such accelerator; {hint} "
        f"or give a file's path, such as ./{name_or_path}.json"
    )


def read_accelerator(path: Path) -> Accelerator:
    """Return an accelerator from its file: JSON, in which // comments are allowed, or TOML if its name ends in .toml.

    docs/add-an-accelerator.md describes the file.
    Raises: ProfileError naming file, key, value and remedy, and the line of a syntax error.
    """
    text = read_text(path, "give the path of an accelerator's JSON or TOML file", ProfileError)
    return accelerator_of(path, toml_of(path, text) if path.suffix == ".toml" else _parse(path, text))


def accelerator_of(path: Path, table: Mapping[str, Any]) -> Accelerator:
    """Return the accelerator of a file's table. Raises: ProfileError as read_accelerator."""
    schema.only(path, table, KEYS)
    remedy = 'give it as "name": "...", or remove it'
    name: str = schema.value_as(path, "name", table.get("name", path.stem), _NAME, remedy)
    if not name.isprintable():
        raise refuse(path, "name", f"{value_text(name)} has characters that are not printed", remedy)
    return Accelerator(
        name=name,
        frequency_ghz=_number(path, table, "frequency", ""),
        levels=_levels(path, table),
        pe_len=_pe_len(path, table),
        pe_mapping=_pe_mapping(path, table),
    )


def _parse(path: Path, text: str) -> dict[str, Any]:
    document = json_document(_COMMENT.sub(_blank, text), str(path), "correct the line", ProfileError)
    return document._replace(remedy='write { "bandwidth": ..., ... }').decode(_ACCELERATOR)


def _blank(match: re.Match[str]) -> str:
    """Return a string as it is, and a comment as spaces, so that lines and columns stay correct in errors."""
    return match[0] if match[0].startswith('"') else " " * len(match[0])


def _levels(path: Path, table: Mapping[str, Any]) -> tuple[MemoryLevel, ...]:
    """Return the memories, the nearest to the processing elements first; the bandwidth of the last one is off-chip."""
    off_chip = _number(path, table, "bandwidth", "")
    if "levels" not in table:
        return (_memory(path, "memory", table.get("mem_size"), "mem_size", off_chip),)
    if "mem_size" in table:
        raise refuse(path, "levels", "given beside mem_size", "give mem_size for one level, levels for several")
    remedy = 'write [{ "name": "L1", "mem_size": ..., "bandwidth": ... }, ...], the nearest first'
    entries = schema.value_as(path, "levels", table["levels"], _LEVELS, remedy)
    levels: list[MemoryLevel] = []
    for number, entry in enumerate(entries):
        key_path = f"levels[{number}]."
        schema.only(path, entry, LEVEL_KEYS, key_path)
        given = entry.get("name", f"level {number + 1}")
        name = schema.value_as(path, f"{key_path}name", given, _NAME, 'such as "name": "L1"')
        if name in [level.name for level in levels]:
            raise refuse(path, f"{key_path}name", f"{value_text(name)} is the name of another level", "change it")
        last = number == len(entries) - 1
        if last and "bandwidth" in entry:
            wrong = f"{value_text(entry['bandwidth'])} beside the file's bandwidth, which is that of the last level"
            raise refuse(path, f"{key_path}bandwidth", wrong, "remove it")
        behind = off_chip if last else _number(path, entry, "bandwidth", key_path)
        levels.append(_memory(path, name, entry.get("mem_size"), f"{key_path}mem_size", behind))
        if number and _smaller(levels[-1], levels[-2]):
            wrong = f"{value_text(entry.get('mem_size'))} is less than the nearer level's"
            raise refuse(path, f"{key_path}mem_size", wrong, "list the levels from the nearest, smallest, outwards")
    return tuple(levels)


def _memory(path: Path, name: str, value: object, key_path: str, behind: float) -> MemoryLevel:
    if value is None:
        raise refuse(path, key_path, "missing", MEM_SIZE_WAY_OUT)
    if isinstance(value, list):
        if len(value) != len(OPERANDS):
            raise refuse(path, key_path, f"{value_text(value)} has {len(value)} sizes, not 3", MEM_SIZE_WAY_OUT)
        sizes = [_size(path, item, f"{key_path}[{i}] ({OPERANDS[i]})") for i, item in enumerate(value)]
        return MemoryLevel(name, behind, *sizes)
    return MemoryLevel(name, behind, shared_bytes=_size(path, value, key_path))


def _size(path: Path, value: object, key_path: str) -> int:
    """Return a size in bytes from KB, which are KiB: the paper's table 8.1 divides by 2^20 for its MB."""
    size_bytes = _figure(path, value, "mem_size", key_path, MEM_SIZE_WAY_OUT) * KIB
    if size_bytes != int(size_bytes):
        raise refuse(path, key_path, f"{value_text(value)} KB is not a whole number of bytes", MEM_SIZE_WAY_OUT)
    return int(size_bytes)


def _smaller(level: MemoryLevel, nearer: MemoryLevel) -> bool:
    """Return True if data that fits the nearer level may not fit this level."""
    return not level.holds(nearer.input_bytes, nearer.weight_bytes, nearer.output_bytes) or (
        max(level.shared_bytes, min(level.input_bytes, level.weight_bytes, level.output_bytes)) < nearer.shared_bytes
    )


def _pe_len(path: Path, table: Mapping[str, Any]) -> tuple[int, int]:
    remedy = 'write "pe_len": [width, height], such as [16, 16]'
    value = schema.value_as(path, "pe_len", table.get("pe_len"), _PAIR, remedy)
    lengths = [_figure(path, item, "pe_len", f"pe_len[{i}]", remedy) for i, item in enumerate(value)]
    for i, length in enumerate(lengths):
        if length != int(length):
            raise refuse(path, f"pe_len[{i}]", f"{value_text(value[i])} is not a whole number", remedy)
    return int(lengths[0]), int(lengths[1])


def _pe_mapping(path: Path, table: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    remedy = 'write "pe_mapping": [[columns], [rows]], such as [["IC"], ["OC"]]'
    value = schema.value_as(path, "pe_mapping", table.get("pe_mapping"), _MAPPING, remedy)
    mapped: list[str] = []
    for i, side in enumerate(value):
        for j, name in enumerate(side):
            key_path = f"pe_mapping[{i}][{j}]"
            if name in mapped:
                raise refuse(path, key_path, f"{name} is mapped twice", "map each loop to one side, once")
            mapped.append(name)
        if len(side) > 1:
            wrong = (
                f"{len(side)} loops along one side of the array; the planner's model cuts one of them into its length"
            )
            raise refuse(path, f"pe_mapping[{i}]", wrong, f'name the one that is cut, such as ["{side[0]}"]')
        length = table["pe_len"][i]
        if not side and length != 1:
            wrong = f"no loop runs along {length} processing elements"
            raise refuse(path, f"pe_mapping[{i}]", wrong, f"name one, or write 1 for pe_len[{i}]")
    return value[0], value[1]


def _number(path: Path, table: Mapping[str, Any], key: str, key_path: str) -> float:
    remedy = f"give it as {key} in {UNITS[key]}"
    if key not in table:
        raise refuse(path, f"{key_path}{key}", "missing", remedy)
    return _figure(path, table[key], key, f"{key_path}{key}", remedy)


def _figure(path: Path, value: object, key: str, key_path: str, remedy: str) -> float:
    """Return a number above 0, at least LEAST[key] and at most MOST[key]."""
    words = f"a number of {UNITS[key]} above 0 and at most {MOST[key]}"
    figure: float = schema.value_as(
        path, key_path, value, Annotated[float, Meta(gt=0, le=MOST[key], description=words)], remedy
    )
    if figure < LEAST.get(key, 0):
        raise refuse(path, key_path, f"{value_text(value)} is less than {LEAST[key]:g} {UNITS[key]}", remedy)
    return figure
