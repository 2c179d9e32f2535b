"""Memory ranges that an instruction reads and writes, for dependences, bounds checks and poison checks.

A range is a hull, from the first to the last word that is accessed. Instructions whose hulls do not overlap share no
word; hulls of compact tiles are exact.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mavcg.accelerators.isa.datapath import SUM_WORDS, Datapath, blocks
from mavcg.accelerators.isa.instruction import AccelInstruction

# Memories: words of feature memory and weight memory, bytes of the two segments in DDR memory.
FEATURES, WEIGHTS, DDR_FEATURES, DDR_PARAMETERS = "feature memory", "weight memory", "features", "parameters"


@dataclass(frozen=True)
class AccessedRange:
    """A range [first, end) of a memory that is accessed. writes: True if it is written, False if it is read."""

    memory: str
    first: int
    end: int
    writes: bool


def accesses(instruction: AccelInstruction, path: Datapath) -> Iterator[AccessedRange]:
    """Yield the ranges that an instruction reads, then the ranges that it writes."""
    v, name = instruction.values, instruction.form.name
    if name in ("load.map", "save.map"):
        ddr_end = v["ddr"] + (v["rows"] - 1) * v["ddr_row"] + (v["columns"] - 1) * v["ddr_pixel"] + v["channels"]
        load = name == "load.map"
        side = "to" if load else "from"
        memory = _tile(v, side, v["rows"], v["columns"], v["channels"], path, load)
        ddr = AccessedRange(DDR_FEATURES, v["ddr"], ddr_end, not load)
        yield from (ddr, memory) if load else (memory, ddr)
    elif name == "load.parameters":
        yield AccessedRange(DDR_PARAMETERS, v["ddr"], v["ddr"] + v["words"] * path.weight_word, False)
        yield AccessedRange(WEIGHTS, v["to"], v["to"] + v["words"], True)
    elif instruction.form.unit == "conv":
        yield from _conv(instruction, path)
    elif instruction.form.unit == "pool":
        yield _tile(v, "from", v["rows"], v["columns"], v["channels"], path, False)
        yield _tile(v, "to", v["out_rows"], v["out_columns"], v["channels"], path, True)
    elif name == "misc.eltwise":
        yield _tile(v, "from", v["rows"], v["columns"], v["channels"], path, False)
        if v["op"] != 5:
            yield _tile(v, "second", v["rows"], v["columns"], v["channels"], path, False)
        yield _tile(v, "to", v["rows"], v["columns"], v["channels"], path, True)
    elif name in ("misc.upsample", "misc.reorganise"):
        rows, columns = input_size(instruction)
        out = v["channels"] * (v["factor_rows"] * v["factor_columns"] if name == "misc.reorganise" else 1)
        yield _tile(v, "from", rows, columns, v["channels"], path, False)
        yield _tile(v, "to", v["out_rows"], v["out_columns"], out, path, True)


def input_size(instruction: AccelInstruction) -> tuple[int, int]:
    """Return the rows and columns of the input tile of misc.upsample or misc.reorganise."""
    v = instruction.values
    if instruction.form.name == "misc.reorganise":
        return v["out_rows"] * v["factor_rows"], v["out_columns"] * v["factor_columns"]
    return (
        blocks(v["phase_row"] + v["out_rows"], v["factor_rows"]),
        blocks(v["phase_column"] + v["out_columns"], v["factor_columns"]),
    )


def parameter_words(instruction: AccelInstruction, path: Datapath) -> int:
    """Return the words of weight memory that a convolution reads."""
    v = instruction.values
    taps = v["kernel_rows"] * v["kernel_columns"]
    return blocks(v["out_channels"], path.oc_lanes) * path.block_words(
        taps, v["channels"], instruction.form.mode == "depthwise"
    )


def sum_words(instruction: AccelInstruction, path: Datapath) -> int:
    """Return the words of feature memory that a convolution's 32-bit sums take."""
    v = instruction.values
    return SUM_WORDS * v["out_rows"] * v["out_columns"] * blocks(v["out_channels"], path.word)


def _conv(instruction: AccelInstruction, path: Datapath) -> Iterator[AccessedRange]:
    v = instruction.values
    sums = (v["sums"], v["sums"] + sum_words(instruction, path))
    yield _tile(v, "from", v["rows"], v["columns"], v["channels"], path, False)
    yield AccessedRange(WEIGHTS, v["parameters"], v["parameters"] + parameter_words(instruction, path), False)
    if v["accumulate"]:
        yield AccessedRange(FEATURES, *sums, False)
    if v["partial"]:
        yield AccessedRange(FEATURES, *sums, True)
    else:
        yield _tile(v, "to", v["out_rows"], v["out_columns"], v["out_channels"], path, True)


def _tile(
    values: Mapping[str, int], side: str, rows: int, columns: int, channels: int, path: Datapath, writes: bool
) -> AccessedRange:
    first = values[side]
    last = (rows - 1) * values[f"{side}_row"] + (columns - 1)
    last += (blocks(channels, path.word) - 1) * values[f"{side}_block"]
    return AccessedRange(FEATURES, first, first + last + 1, writes)
