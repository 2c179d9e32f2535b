"""Interpreter of plans: runs the commands on arrays, and counts the bytes that they move."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mavcg.accelerators.plans.text.boxes import Box, box_of, slices
from mavcg.accelerators.plans.text.plan import (
    Conv,
    Dims,
    Load,
    PlanTile,
    PoolCommand,
    Relu,
    Store,
    TextPlan,
    tiles_by_name,
)
from mavcg.accelerators.plans.text.verify import verify_plan
from mavcg.cost.traffic import Traffic
from mavcg.errors import MavcgError

Array = NDArray[Any]

# Largest integer up to which float64 has all: sums of products below it are exact in any order.
_EXACT = 2**53


@dataclass(frozen=True)
class CountedTraffic:
    """Off-chip bytes by operand and direction; those of the output include partial sums."""

    input_loaded_bytes: int
    weight_loaded_bytes: int
    output_loaded_bytes: int
    output_stored_bytes: int

    @property
    def traffic(self) -> Traffic:
        """Bytes by operand, in both directions together."""
        return Traffic(
            self.input_loaded_bytes, self.weight_loaded_bytes, self.output_loaded_bytes + self.output_stored_bytes
        )


@dataclass(frozen=True)
class Ran:
    """Result of a run. output: [1, channels, height, width]. moved: off-chip bytes of the run."""

    output: Array
    moved: CountedTraffic


def count_plan(plan: TextPlan) -> CountedTraffic:
    """Return the bytes that a plan's LOAD and STORE commands move, without computing or verifying anything.

    Raises: MavcgError if a command names a tile that the plan lacks.
    """
    tiles = tiles_by_name(plan)
    types = plan.info.types
    loaded = {"INPUT": 0, "WEIGHT": 0, "OUTPUT": 0}
    psums = stored = 0
    for command in plan.commands:
        match command:
            case Load(tile=name) | Store(tile=name) if name not in tiles:
                raise MavcgError(f"plan of {plan.name or 'a layer'}: {name} is moved but not in [var]; declare it")
            case Load(tile=name):
                loaded[tiles[name].operand] += tiles[name].elements
            case Store(tile=name, partial=True):
                psums += tiles[name].elements
            case Store(tile=name):
                stored += tiles[name].elements
            case _:
                pass  # the others move nothing off chip
    psum_bytes = types.resident_bytes("OUTPUT")
    return CountedTraffic(
        loaded["INPUT"] * types.item_bytes("INPUT"),
        loaded["WEIGHT"] * types.item_bytes("WEIGHT"),
        loaded["OUTPUT"] * psum_bytes,
        psums * psum_bytes + stored * types.item_bytes("OUTPUT"),
    )


def _sum_type(plan: TextPlan, x: Array, w: Array | None) -> np.dtype[Any]:
    """Return the type of sums: the arrays' own kind, as wide as the wider of the arrays and the plan's partial sums."""
    both = np.result_type(x) if w is None else np.result_type(x, w)
    if both.kind not in "iuf":
        raise MavcgError(f"plan of {plan.name or 'a layer'}: arrays of {both}; give integers or floats")
    size = max(both.itemsize, plan.info.types.resident_bytes("OUTPUT"))
    return np.dtype(f"{both.kind}{size}")


def _check_shape(plan: TextPlan, operand: str, array: Array | None, dims: Dims | None) -> None:
    shape = None if array is None else array.shape
    if shape != dims:
        raise MavcgError(f"plan of {plan.name or 'a layer'}: {operand} of shape {shape}; [info] requires {dims}")


def run_plan(plan: TextPlan, x: Array, w: Array | None) -> Ran:
    """Verify a plan and run its commands.

    x: [1, channels, height, width]. w: [out channels, in channels of a group, height, width], None for pooling. Both
    are integers or floats. Integer sums wrap around as in C; float sums follow the order of the plan's commands, and
    NumPy's order inside one CONV. Raises: MavcgError for a wrong plan (`verify_plan`), or arrays of other shapes than
    [info] has.
    """
    verify_plan(plan)
    _check_shape(plan, "input", x, plan.info.input)
    _check_shape(plan, "weights", w, plan.info.weight)
    run = _Interpreter(plan, x, w)
    for command in plan.commands:
        run.step(command)
    return Ran(run.output, count_plan(plan))


class _Interpreter:
    """State of a run: off-chip arrays, and tiles on chip as separate arrays."""

    def __init__(self, plan: TextPlan, x: Array, w: Array | None) -> None:
        self.info = plan.info
        self.x, self.w = x, w
        self.sum_type = _sum_type(plan, x, w)
        self.output: Array = np.zeros(plan.info.output, self.sum_type)
        self.psums: dict[str, Array] = {}  # off chip
        self.chip: dict[str, Array] = {}
        self.boxes = {name: self.box(tile) for name, tile in tiles_by_name(plan).items()}
        self.through_floats = self.is_small()

    def box(self, tile: PlanTile) -> Box:
        dims = self.info.dims(tile.operand)
        assert dims
        return box_of(tile, dims)

    def is_small(self) -> bool:
        """True if no sum of this layer exceeds the integers that float64 represents.

        float64 products are much faster.
        """
        if self.sum_type.kind == "f" or self.w is None or not self.x.size:
            return False
        largest = [max(abs(int(a.min())), abs(int(a.max()))) for a in (self.x, self.w)]
        terms = self.w[0].size
        return bool(largest[0] * largest[1] * terms < _EXACT)

    def step(self, command: Load | Store | Conv | PoolCommand | Relu) -> None:
        match command:
            case Load(tile=name):
                self.chip[name] = self.fetch(name)
            case Store(tile=name, partial=True):
                self.psums[name] = self.chip[name].copy()
            case Store(tile=name):
                self.output[slices(self.boxes[name])] = self.chip[name]
            case Conv():
                products = self.convolve(command)
                self.chip[command.output] = self.chip[command.output] + products if command.add else products
            case PoolCommand():
                self.chip[command.output] = self.pool(command)
            case Relu(output=name):
                self.chip[name] = np.maximum(self.chip[name], 0)

    def fetch(self, name: str) -> Array:
        if name in self.psums:
            return self.psums[name].copy()
        source = self.x if name.startswith("INPUT") else self.w
        assert source is not None
        return source[slices(self.boxes[name])]

    def take_tile(self, command: Conv | PoolCommand, outside: Any) -> Array:
        """Return the input tile with its padding, [channels, rows, columns]. outside: value of the padding."""
        left, right, above, below = command.pads
        # A tile of padding alone is never loaded.
        tile = self.chip[command.input] if command.input in self.chip else self.fetch(command.input)
        padded = np.pad(tile[0], ((0, 0), (above, below), (left, right)), constant_values=outside)
        return padded.astype(np.float64 if self.through_floats else self.sum_type)

    def tap_window(self, padded: Array, command: Conv | PoolCommand, tap: tuple[int, int]) -> Array:
        """Return the input elements that one tap of the kernel multiplies, [channels, rows, columns] of the output."""
        parts = []
        for axis in (0, 1):
            first = tap[axis] * self.info.dilation[axis]
            count = self.boxes[command.output][2 + axis][1]
            parts.append(slice(first, first + (count - 1) * command.stride[axis] + 1, command.stride[axis]))
        return padded[:, parts[0], parts[1]]

    def convolve(self, command: Conv) -> Array:
        padded = self.take_tile(command, 0)
        weight = self.chip[command.weight].astype(padded.dtype)
        _, (_, channels), (_, rows), (_, columns) = self.boxes[command.output]
        total = np.zeros((channels, rows * columns), padded.dtype)
        for kh in range(weight.shape[2]):
            for kw in range(weight.shape[3]):
                pixels = self.tap_window(padded, command, (kh, kw)).reshape(weight.shape[1], -1)
                total += weight[:, :, kh, kw] @ pixels
        if self.through_floats:
            # By way of int64, so that a sum beyond 32 bits wraps around as in C.
            total = total.astype(np.int64)
        return total.reshape(1, channels, rows, columns).astype(self.sum_type)

    def pool(self, command: PoolCommand) -> Array:
        taps = [(kh, kw) for kh in range(self.info.kernel[0]) for kw in range(self.info.kernel[1])]
        if command.maximum:
            lowest = np.iinfo(self.sum_type).min if self.sum_type.kind in "iu" else -np.inf
            padded = self.take_tile(command, lowest)
            return np.asarray(np.maximum.reduce([self.tap_window(padded, command, tap) for tap in taps]))[None]
        padded = self.take_tile(command, 0)
        inside = self.input_count(command)
        total = sum(self.tap_window(padded, command, tap) for tap in taps)
        count = sum(self.tap_window(inside, command, tap) for tap in taps)
        # Division truncates, as in C. A window of padding alone has the mean 0.
        mean = np.trunc(total / np.maximum(count, 1)) if self.sum_type.kind in "iu" else total / np.maximum(count, 1)
        return np.asarray(mean, self.sum_type)[None]

    def input_count(self, command: PoolCommand) -> Array:
        """Return a mask of the padded tile: 1 for input, 0 for padding."""
        left, right, above, below = command.pads
        ones = np.ones((1, *(count for _, count in self.boxes[command.input][2:])), self.sum_type)
        return np.pad(ones, ((0, 0), (above, below), (left, right)))
