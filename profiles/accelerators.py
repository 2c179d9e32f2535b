"""Read accelerators from JSON or TOML files in the format of e-PlaNNer (figure 6.1): those of mavcg and the user's own.

As for cores and boards, a file in accelerators/ of a folder of MAVCG_PROFILES replaces mavcg's file of the same name.
"""

import difflib
import json
import os
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mavcg.errors import MavcgError, ProfileError
from mavcg.hardware.accelerator import DIMENSIONS, Accelerator, MemoryLevel
from mavcg.profiles.folders import SUFFIXES, files
from mavcg.profiles.schema import refuse, toml_of

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
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ProfileError(
            f"{path}: cannot be read: {reason}; give the path of an accelerator's JSON or TOML file"
        ) from None
    return accelerator_of(path, toml_of(path, text) if path.suffix == ".toml" else _parse(path, text))


def accelerator_of(path: Path, table: Mapping[str, Any]) -> Accelerator:
    """Return the accelerator of a file's table. Raises: ProfileError as read_accelerator."""
    _only(path, table, KEYS, "")
    name = table.get("name", path.stem)
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise refuse(path, "name", f"{_quote_value(name)} is not text", 'give it as "name": "...", or remove it')
    return Accelerator(
        name=name,
        frequency_ghz=_number(path, table, "frequency", ""),
        levels=_levels(path, table),
        pe_len=_pe_len(path, table),
        pe_mapping=_pe_mapping(path, table),
    )


def _parse(path: Path, text: str) -> dict[str, Any]:
    try:
        accelerator = json.loads(
            _COMMENT.sub(_blank, text),
            object_pairs_hook=partial(_refuse_duplicates, path),
            parse_constant=partial(_no_number, path),
            parse_int=partial(_whole, path),
        )
    except json.JSONDecodeError as error:
        raise ProfileError(
            f"{path}:{error.lineno}: not JSON: {error.msg} at column {error.colno}; correct the line"
        ) from None
    except RecursionError:
        raise ProfileError(f"{path}: not an accelerator: JSON nested too deep; correct the file") from None
    if not isinstance(accelerator, dict):
        raise ProfileError(
            f'{path}: {_quote_value(accelerator)} is not an accelerator; write {{ "bandwidth": ..., ... }}'
        )
    return accelerator


def _blank(match: re.Match[str]) -> str:
    """Return a string as it is, and a comment as spaces, so that lines and columns stay correct in errors."""
    return match[0] if match[0].startswith('"') else " " * len(match[0])


def _refuse_duplicates(path: Path, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for key, value in pairs:
        if key in table:
            raise refuse(
                path, key, f"given twice, as {_quote_value(table[key])} and {_quote_value(value)}", "remove one of them"
            )
        table[key] = value
    return table


def _no_number(path: Path, word: str) -> float:
    raise ProfileError(f"{path}: {word} is not a JSON number; write a finite number")


def _whole(path: Path, digits: str) -> int:
    if len(digits) > 40:
        raise ProfileError(
            f"{path}: a number of {len(digits)} digits is too large for any accelerator; give the figure in its unit"
        )
    return int(digits)


def _levels(path: Path, table: Mapping[str, Any]) -> tuple[MemoryLevel, ...]:
    """Return the memories, the nearest to the processing elements first; the bandwidth of the last one is off-chip."""
    off_chip = _number(path, table, "bandwidth", "")
    if "levels" not in table:
        return (_memory(path, "memory", table.get("mem_size"), "mem_size", off_chip),)
    if "mem_size" in table:
        raise refuse(path, "levels", "given beside mem_size", "give mem_size for one level, levels for several")
    entries = table["levels"]
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        remedy = 'write [{ "name": "L1", "mem_size": ..., "bandwidth": ... }, ...], the nearest first'
        raise refuse(path, "levels", f"{_quote_value(entries)} is not a list of memories", remedy)
    levels: list[MemoryLevel] = []
    for number, entry in enumerate(entries):
        key_path = f"levels[{number}]."
        _only(path, entry, LEVEL_KEYS, key_path)
        name = entry.get("name", f"level {number + 1}")
        if not isinstance(name, str) or not name.strip() or name in [level.name for level in levels]:
            raise refuse(
                path,
                f"{key_path}name",
                f"{_quote_value(name)} is not a name that only this level has",
                'such as "name": "L1"',
            )
        last = number == len(entries) - 1
        if last and "bandwidth" in entry:
            wrong = f"{_quote_value(entry['bandwidth'])} beside the file's bandwidth, which is that of the last level"
            raise refuse(path, f"{key_path}bandwidth", wrong, "remove it")
        behind = off_chip if last else _number(path, entry, "bandwidth", key_path)
        levels.append(_memory(path, name, entry.get("mem_size"), f"{key_path}mem_size", behind))
        if number and _smaller(levels[-1], levels[-2]):
            wrong = f"{_quote_value(entry.get('mem_size'))} is less than the nearer level's"
            raise refuse(path, f"{key_path}mem_size", wrong, "list the levels from the nearest, smallest, outwards")
    return tuple(levels)


def _memory(path: Path, name: str, value: object, key_path: str, behind: float) -> MemoryLevel:
    if value is None:
        raise refuse(path, key_path, "missing", MEM_SIZE_WAY_OUT)
    if isinstance(value, list):
        if len(value) != len(OPERANDS):
            raise refuse(path, key_path, f"{_quote_value(value)} has {len(value)} sizes, not 3", MEM_SIZE_WAY_OUT)
        sizes = [_size(path, item, f"{key_path}[{i}] ({OPERANDS[i]})") for i, item in enumerate(value)]
        return MemoryLevel(name, behind, *sizes)
    return MemoryLevel(name, behind, shared_bytes=_size(path, value, key_path))


def _size(path: Path, value: object, key_path: str) -> int:
    """Return a size in bytes from KB, which are KiB: the paper's table 8.1 divides by 2^20 for its MB."""
    size_bytes = _figure(path, value, "mem_size", key_path, MEM_SIZE_WAY_OUT) * KIB
    if size_bytes != int(size_bytes):
        raise refuse(path, key_path, f"{_quote_value(value)} KB is not a whole number of bytes", MEM_SIZE_WAY_OUT)
    return int(size_bytes)


def _smaller(level: MemoryLevel, nearer: MemoryLevel) -> bool:
    """Return True if data that fits the nearer level may not fit this level."""
    return not level.holds(nearer.input_bytes, nearer.weight_bytes, nearer.output_bytes) or (
        max(level.shared_bytes, min(level.input_bytes, level.weight_bytes, level.output_bytes)) < nearer.shared_bytes
    )


def _pe_len(path: Path, table: Mapping[str, Any]) -> tuple[int, int]:
    remedy = 'write "pe_len": [width, height], such as [16, 16]'
    value = table.get("pe_len")
    if not isinstance(value, list) or len(value) != 2:
        wrong = "missing" if value is None else f"{_quote_value(value)} is not a pair of lengths"
        raise refuse(path, "pe_len", wrong, remedy)
    lengths = [_figure(path, item, "pe_len", f"pe_len[{i}]", remedy) for i, item in enumerate(value)]
    for i, length in enumerate(lengths):
        if length != int(length):
            raise refuse(path, f"pe_len[{i}]", f"{_quote_value(value[i])} is not a whole number", remedy)
    return int(lengths[0]), int(lengths[1])


def _pe_mapping(path: Path, table: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    remedy = 'write "pe_mapping": [[columns], [rows]], such as [["IC"], ["OC"]]'
    value = table.get("pe_mapping")
    if not isinstance(value, list) or len(value) != 2 or not all(isinstance(side, list) for side in value):
        wrong = "missing" if value is None else f"{_quote_value(value)} is not a pair of lists"
        raise refuse(path, "pe_mapping", wrong, remedy)
    mapped: list[str] = []
    for i, side in enumerate(value):
        for j, name in enumerate(side):
            key_path = f"pe_mapping[{i}][{j}]"
            if not isinstance(name, str) or name not in DIMENSIONS:
                raise refuse(
                    path, key_path, f"{_quote_value(name)} is not a loop", f"the loops are {', '.join(DIMENSIONS)}"
                )
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
    return tuple(value[0]), tuple(value[1])


def _number(path: Path, table: Mapping[str, Any], key: str, key_path: str) -> float:
    remedy = f"give it as {key} in {UNITS[key]}"
    if key not in table:
        raise refuse(path, f"{key_path}{key}", "missing", remedy)
    return _figure(path, table[key], key, f"{key_path}{key}", remedy)


def _figure(path: Path, value: object, key: str, key_path: str, remedy: str) -> float:
    """Return a number above 0, at least LEAST[key] and at most MOST[key]."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MOST[key]:
        wrong = f"{_quote_value(value)} is not a number of {UNITS[key]} above 0 and at most {MOST[key]}"
        raise refuse(path, key_path, wrong, remedy)
    if value < LEAST.get(key, 0):
        raise refuse(path, key_path, f"{_quote_value(value)} is less than {LEAST[key]:g} {UNITS[key]}", remedy)
    return float(value)


def _only(path: Path, table: Mapping[str, Any], allowed: Sequence[str], key_path: str) -> None:
    for key in table:
        if key not in allowed:
            near = difflib.get_close_matches(key, allowed, n=1)
            remedy = f"did you mean {near[0]}?" if near else f"keys here are {', '.join(allowed)}; remove it"
            raise refuse(path, f"{key_path}{_quote_value(key)[1:-1]}", "no such key", remedy)


def _quote_value(value: object) -> str:
    """Return a value as JSON on one line, shortened if it is long."""
    try:
        text = json.dumps(value, default=str)  # TOML has dates, too
    except ValueError:  # Python writes no number of thousands of digits, though it reads one in hexadecimal
        return "a number of thousands of digits"
    return text if len(text) <= 60 else f"{text[:57]}..."
