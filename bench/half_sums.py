"""Errors of sums of f16 products against f64: in blocks and groups, in f16 throughout, in f32, and by Winograd's F(m).

    python -m bench.half_sums

Terms are random: inputs of a normal distribution or its positive part, weights of He's initialisation, both rounded to
f16 first. The errors are root mean squares over the root mean square of the sums, rounded to f16 at the end. Nothing is
timed: the figures are the same on every machine.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mavcg.kernels.gemm.loop_shape import F16_BLOCK_TERMS, F16_GROUP_TERMS
from mavcg.kernels.primitives.winograd.family import pack_winograd
from mavcg.kernels.primitives.winograd.matrices import Matrix, Operation, operations_of
from mavcg.kernels.primitives.winograd.tiles import Tiles

Halves: TypeAlias = NDArray[np.float16]

SUMS = 2000
LENGTHS = (64, 576, 1152, 4608)


def half_sums(
    x: NDArray[np.float16], w: NDArray[np.float16], block: int, group: int = F16_GROUP_TERMS
) -> NDArray[np.float16]:
    """Return the sum of each row's products: in f16 within blocks of terms, blocks in f16 within groups, groups in f32.

    x, w: [sums, terms]. group: terms of a group, a multiple of those of a block.
    """
    products = x.astype(np.float64) * w.astype(np.float64)

    def add(total: Halves, k: int) -> Halves:
        return (total.astype(np.float64) + products[:, k]).astype(np.float16)  # one rounding: products are exact

    return sums_by_groups(len(x), x.shape[1], block, group, add)


def sums_by_groups(
    shape: int | tuple[int, ...], terms: int, block: int, group: int, add: Callable[[Halves, int], Halves]
) -> Halves:
    """Return sums of `terms` terms by blocks and groups. add: returns f16 sums with a term more, by its number."""
    total = np.zeros(shape, np.float32)
    for begin in range(0, terms, max(block, group)):
        end, so_far = min(begin + max(block, group), terms), np.zeros(shape, np.float16)
        for first in range(begin, end, block):
            part = np.zeros(shape, np.float16)
            for k in range(first, min(first + block, end)):
                part = add(part, k)
            so_far = so_far + part
        total += so_far.astype(np.float32)
    return total.astype(np.float16)


def relative_errors(terms: int, positive: bool) -> dict[str, float]:
    """Return the error of each way to add this number of terms. positive: inputs are the output of a relu."""
    rng = np.random.default_rng(terms)
    x = rng.standard_normal((SUMS, terms))
    halves = (np.maximum(x, 0) if positive else x).astype(np.float16)
    w = (rng.standard_normal((SUMS, terms)) * np.sqrt(2 / terms)).astype(np.float16)
    exact = np.sum(halves.astype(np.float64) * w.astype(np.float64), axis=1)
    ways = {
        "blocks and groups": half_sums(halves, w, F16_BLOCK_TERMS),
        "blocks of 64": half_sums(halves, w, F16_BLOCK_TERMS, F16_BLOCK_TERMS),
        "f16 throughout": half_sums(halves, w, terms),
        "f32": exact.astype(np.float32).astype(np.float16),
    }
    scale = np.sqrt(np.mean(exact**2))
    return {
        name: float(np.sqrt(np.mean((sums.astype(np.float64) - exact) ** 2)) / scale) for name, sums in ways.items()
    }


def products_in_blocks(rows: Halves, columns: Halves) -> Halves:
    """Return rows @ columns [.., t, c] @ [.., c, o], added in blocks and groups of terms."""

    def add(total: Halves, c: int) -> Halves:
        terms = rows[..., c, None].astype(np.float64) * columns[..., None, c, :].astype(np.float64)
        return (total.astype(np.float64) + terms).astype(np.float16)

    shape = (*rows.shape[:-1], columns.shape[-1])
    return sums_by_groups(shape, rows.shape[-1], F16_BLOCK_TERMS, F16_GROUP_TERMS, add)


def times(matrix: Matrix, values: Sequence[Halves]) -> list[Halves]:
    """Return matrix * values as the kernels compute it, each operation rounded to f16."""
    operations, numbered = operations_of(matrix), list(values)
    for operation in operations.operations:
        operands = [numbered[number].astype(np.float64) for number in operation.operands]
        numbered.append(_result(operation, operands).astype(np.float16))
    return [numbered[number] for number in operations.results]


def _result(operation: Operation, operands: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    x, factor = operands[0], float(np.float16(operation.factor))
    match operation.kind:
        case "fadd":
            return x + operands[1]
        case "fsub":
            return x - operands[1]
        case "fneg":
            return -x
        case "fmul":
            return x * factor
        case _:
            return x * factor + operands[1]


def both_ways(matrix: Matrix, square: Halves) -> Halves:
    """Return matrix * square * matrix', along the first two dimensions."""
    rows = np.stack(times(matrix, list(square.swapaxes(0, 1))), axis=1)
    return np.stack(times(matrix, list(rows)))


def winograd_errors(m: int, channels: int, positive: bool) -> tuple[float, float]:
    """Return the errors of F(m x m, 3 x 3) in f16: root mean square, and the largest over the largest sum."""
    rng = np.random.default_rng(channels)
    tiles = Tiles(m, 3, True, (0, 0), m + 2, m + 2, channels, m, m, 16, 8, dtype="f16")
    x = rng.standard_normal((m + 2, m + 2, 60, channels))
    x = (np.maximum(x, 0) if positive else x).astype(np.float16)
    w = (rng.standard_normal((16, 3, 3, channels)) * np.sqrt(2 / (9 * channels))).astype(np.float16)
    exact = sum(
        np.einsum("ijtc,oc->ijto", x[i : i + m, j : j + m].astype(np.float64), w[:, i, j].astype(np.float64))
        for i in range(3)
        for j in range(3)
    )
    packed = pack_winograd(tiles, w).transpose(0, 2, 1, 3).reshape(m + 2, m + 2, channels, 16)
    inputs = both_ways(tiles.filtering.inputs, (x * np.float16(tiles.input_scale)).astype(np.float16))
    sums = both_ways(tiles.filtering.inverse, products_in_blocks(inputs, packed))
    error = sums.astype(np.float64) / tiles.input_scale - exact
    largest = float(np.abs(error).max() / np.abs(exact).max())
    return float(np.sqrt(np.mean(error**2) / np.mean(np.square(exact)))), largest


def main() -> None:
    """Print the errors, a line for each number of terms."""
    for terms in LENGTHS:
        for positive in (False, True):
            errors = relative_errors(terms, positive)
            print(terms, "relu" if positive else "normal", *(f"{name} {error:.2e}" for name, error in errors.items()))
    for m, channels, positive in product((2, 4), (16, 64, 128, 512), (False, True)):
        mean, largest = winograd_errors(m, channels, positive)
        print(f"F({m}x{m}), {9 * channels}", "relu" if positive else "normal", f"{mean:.2e}, largest {largest:.2e}")


if __name__ == "__main__":
    main()
