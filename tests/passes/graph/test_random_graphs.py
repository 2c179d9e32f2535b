"""Random small graphs of everything the movement passes know: the same results before and after."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mavcg.graph import Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.graph.ops import OPS
from mavcg.graph.ops.nodes import verify
from mavcg.passes.graph.pads import explicit_padding
from mavcg.passes.graph.pipeline import optimise
from mavcg.passes.graph.prune import merge_equal, merge_moves, prune
from mavcg.passes.graph.transposes import cancel_transposes, moving_transposes
from tests.conftest import examples

Rng = np.random.Generator
LENGTHS = (1, 1, 2, 3, 4, 6)
MOST_ELEMENTS = 2000


class Maker:
    """Adds random nodes to a graph; `pool` holds its f32 tensors."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.b = GraphBuilder("random")
        self.pool: list[str] = []
        for i in range(int(self.rng.integers(1, 3))):
            shape = tuple(int(n) for n in self.rng.choice(LENGTHS, int(self.rng.choice([2, 3, 4, 4, 4]))))
            self.pool.append(self.b.input(f"x{i}", TensorType("f32", shape)))

    def shape(self, name: str) -> tuple[int, ...]:
        return self.b.types[name].shape

    def pick(self, rank_min: int = 0) -> str | None:
        fit = [n for n in self.pool[-4:] if len(self.shape(n)) >= rank_min]
        return str(self.rng.choice(fit)) if fit else None

    def constant(self, shape: tuple[int, ...]) -> str:
        return self.b.constant(self.rng.standard_normal(shape).astype(np.float32))

    def transpose(self) -> str | None:
        x = self.pick(2)
        perm = tuple(int(i) for i in self.rng.permutation(len(self.shape(x)))) if x else ()
        return self.b.add("transpose", (x,), perm=perm) if x else None

    def unary(self) -> str | None:
        x = self.pick()
        op = str(self.rng.choice(["relu", "neg", "abs", "clip", "sigmoid"]))
        attrs: dict[str, Any] = {"lo": -1.0, "hi": 2.0} if op == "clip" else {}
        return self.b.add(op, (x,), **attrs) if x else None

    def binary(self) -> str | None:
        x = self.pick()
        if x is None:
            return None
        shape = self.shape(x)
        like = [n for n in self.pool if self.shape(n) == shape]
        cut = int(self.rng.integers(0, len(shape) + 1))
        other = tuple(1 if self.rng.random() < 0.4 else n for n in shape[cut:])
        y = str(self.rng.choice(like)) if self.rng.random() < 0.5 else self.constant(other)
        op = str(self.rng.choice(["add", "sub", "mul", "max", "prelu"]))
        return self.b.add(op, (x, y) if op == "prelu" or self.rng.random() < 0.7 else (y, x))

    def where(self) -> str | None:
        x = self.pick()
        if x is None:
            return None
        shape = self.shape(x)
        condition = self.b.constant(self.rng.random(shape[1:]) < 0.5)
        return self.b.add("where", (condition, x, self.constant(())))

    def concat(self) -> str | None:
        x = self.pick(1)
        if x is None:
            return None
        shape = self.shape(x)
        axis = int(self.rng.integers(0, len(shape)))
        like = [n for n in self.pool if self.shape(n) == shape]
        return self.b.add("concat", (x, str(self.rng.choice(like)), self.constant(shape)), axis=axis)

    def slice(self) -> str | None:
        x = self.pick(1)
        if x is None:
            return None
        starts: list[int] = []
        stops: list[int] = []
        steps: list[int] = []
        for n in self.shape(x):
            if self.rng.random() < 0.2:
                starts, stops, steps = [*starts, n - 1], [*stops, -1], [*steps, -1]
                continue
            start = int(self.rng.integers(0, n)) if self.rng.random() < 0.5 else 0
            stop = int(self.rng.integers(start + 1, n + 1)) if self.rng.random() < 0.5 else n
            starts, stops, steps = [*starts, start], [*stops, stop], [*steps, int(self.rng.choice([1, 1, 2]))]
        return self.b.add("slice", (x,), starts=starts, stops=stops, steps=steps)

    def pad(self) -> str | None:
        x = self.pick(1)
        if x is None:
            return None
        rank = len(self.shape(x))
        before, after = (self.rng.choice([0, 0, 1, 2], rank).tolist() for _ in range(2))
        return self.b.add("pad", (x,), before=before, after=after, mode=str(self.rng.choice(["constant", "edge"])))

    def reduce(self) -> str | None:
        x = self.pick(1)
        if x is None:
            return None
        rank = len(self.shape(x))
        axes = [i for i in range(rank) if self.rng.random() < 0.4] or [0]
        op, keep = str(self.rng.choice(["reduce_sum", "reduce_mean", "reduce_max"])), bool(self.rng.random() < 0.5)
        return self.b.add(op, (x,), axes=axes, keepdims=keep)

    def softmax(self) -> str | None:
        x = self.pick(1)
        axis = int(self.rng.integers(0, len(self.shape(x)))) if x else 0
        return self.b.add("softmax", (x,), axis=axis) if x else None

    def arg_max(self) -> str | None:
        x = self.pick(1)
        if x is None:
            return None
        axis, keep = int(self.rng.integers(0, len(self.shape(x)))), bool(self.rng.random() < 0.5)
        return self.b.add("cast", (self.b.add("arg_max", (x,), axis=axis, keepdims=keep),), to="f32")

    def resample(self) -> str | None:
        x = self.pick(1)
        if x is None:
            return None
        axis = int(self.rng.integers(0, len(self.shape(x))))
        out = int(self.rng.integers(1, 5))
        index = self.b.constant(self.rng.integers(0, self.shape(x)[axis], (out, 2)).astype(np.int32))
        return self.b.add("resample", (x, index, self.constant((out, 2))), axis=axis)

    def eight_bit(self) -> str | None:
        x = self.pick(1)
        if x is None:
            return None
        axis = int(self.rng.integers(0, len(self.shape(x))))
        shape = (self.shape(x)[axis],) if self.rng.random() < 0.5 else ()
        scale = self.b.constant(self.rng.uniform(0.01, 0.1, shape).astype(np.float32))
        zero = self.b.constant(self.rng.integers(-5, 5, shape).astype(np.int8))
        q = self.b.add("quantize", (x, scale, zero), axis=axis, to="i8")
        return self.b.add("dequantize", (q, scale, zero), axis=axis)

    def reshape(self) -> str | None:
        x = self.pick()
        if x is None:
            return None
        shape = list(self.shape(x))
        for _ in range(int(self.rng.integers(1, 4))):
            at, kind = int(self.rng.integers(0, len(shape) + 1)), int(self.rng.integers(0, 3))
            if kind == 0 and at + 1 < len(shape):
                shape[at : at + 2] = [shape[at] * shape[at + 1]]
            elif kind == 1 and at < len(shape):
                factor = int(self.rng.choice([f for f in range(1, shape[at] + 1) if shape[at] % f == 0]))
                shape[at : at + 1] = [factor, shape[at] // factor]
            elif len(shape) < 6:
                shape.insert(at, 1)
        return self.b.add("reshape", (x,), shape=shape) if len(shape) <= 7 else None

    def broadcast_to(self) -> str | None:
        x = self.pick()
        if x is None:
            return None
        shape = [2 if n == 1 and self.rng.random() < 0.5 else n for n in self.shape(x)]
        return self.b.add("broadcast_to", (x,), shape=([3] if self.rng.random() < 0.3 else []) + shape)

    def matmul(self) -> str | None:
        x = self.pick(2)
        turned = bool(self.rng.random() < 0.5)
        if x is None:
            return None
        depth = self.shape(x)[-1]
        weights = self.constant((3, depth) if turned else (depth, 3))
        return self.b.add("matmul", (x, weights), transpose_b=turned)

    def max_pool2d(self) -> str | None:
        return self.image(lambda x: self.b.add("max_pool2d", (x,), kernel=(2, 2), pads=(1, 1, 0, 1)))

    def conv2d(self) -> str | None:
        def convolve(x: str) -> str:
            weights = self.constant((4, 2, 2, self.shape(x)[3]))
            return self.b.add("conv2d", (x, weights, self.constant((4,))), pads=(1, 0, 1, 1))

        return self.image(convolve)

    def image(self, made: Callable[[str], str]) -> str | None:
        """As an importer of the other order of dimensions writes it."""
        fit = [n for n in self.pool[-3:] if len(self.shape(n)) == 4]
        if not fit:
            return None
        turned = self.b.add("transpose", (fit[-1],), perm=(0, 2, 3, 1))
        return self.b.add("transpose", (made(turned),), perm=(0, 3, 1, 2))

    def graph(self, nodes: int) -> Graph:
        kinds: list[Callable[[], str | None]] = [
            self.transpose,
            self.transpose,
            self.transpose,
            self.unary,
            self.binary,
            self.where,
            self.concat,
            self.slice,
            self.pad,
            self.reduce,
            self.softmax,
            self.arg_max,
            self.resample,
            self.eight_bit,
            self.reshape,
            self.reshape,
            self.broadcast_to,
            self.matmul,
            self.max_pool2d,
            self.max_pool2d,
            self.conv2d,
            self.conv2d,
            self.conv2d,
        ]
        while len(self.pool) < nodes:
            made = kinds[int(self.rng.integers(0, len(kinds)))]()
            if made is not None and self.b.types[made].elements <= MOST_ELEMENTS:
                self.pool.append(made)
        outputs = list(dict.fromkeys(str(n) for n in self.rng.choice(self.pool[-4:], 2)))
        return self.b.finish([*outputs, self.pool[-1]] if self.pool[-1] not in outputs else outputs)


SEEDS = range(120)


@pytest.mark.sample(2)
@pytest.mark.parametrize("function", [merge_equal, merge_moves, prune, cancel_transposes, explicit_padding])
def test_nothing_changes_but_the_form(function: Any, h: Any) -> None:
    for seed in SEEDS[:: examples(1, 3)]:
        graph = Maker(seed).graph(4 + seed % 12)
        verify(graph)
        try:
            h.same(graph, function(graph), relative=1e-6, seed=seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}\n{graph}\n{function(graph)}") from error


def test_all_passes_together(h: Any) -> None:
    for seed in SEEDS[:: examples(1, 3)]:
        graph = Maker(1000 + seed).graph(4 + seed % 12)
        after = optimise(graph)
        try:
            h.same(graph, after, relative=1e-5, seed=seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}\n{graph}\n{after}") from error


def test_transposes_never_become_more_and_a_second_time_changes_nothing() -> None:
    fewer = 0
    for seed in SEEDS:
        graph = prune(Maker(seed).graph(4 + seed % 12))
        after = prune(cancel_transposes(graph))
        assert moving_transposes(after) <= moving_transposes(graph), f"seed {seed}"
        fewer += moving_transposes(after) < moving_transposes(graph)
        again = prune(cancel_transposes(after))
        assert moving_transposes(again) <= moving_transposes(after), f"seed {seed}"
    assert fewer > 10


def test_the_random_graphs_cover_their_operators() -> None:
    seen = {node.op for seed in SEEDS for node in Maker(seed).graph(4 + seed % 12).nodes}
    assert {"transpose", "reshape", "prelu", "resample", "dequantize", "broadcast_to", "arg_max"} <= seen <= set(OPS)
