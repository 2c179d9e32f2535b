"""Growing of a random TFLite chain, of f32, of signed 8 bits, or with weights of f16 that DEQUANTIZE makes f32."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench.chains.chain import Node
from bench.chains.growing import MOST_ELEMENTS, UnsuitableError
from bench.chains.tflite_truth import computed, real, stored
from bench.differential.part import HARD, Array
from bench.tflite_file import Quantised

F32, INT8, F16 = "float32", "int8", "float16"  # what a chain computes in; of F16, its weights


@dataclass
class TfliteGrowing:
    """Builder of a chain. real: each tensor's numbers in f64; recent: names that may be read, the last result last."""

    prefix: str
    rng: np.random.Generator
    kind: str
    hard: bool = False
    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    inputs: dict[str, Array] = field(default_factory=dict)
    dtypes: dict[str, str] = field(default_factory=dict)
    quantised: dict[str, Quantised] = field(default_factory=dict)
    real: dict[str, Array] = field(default_factory=dict)
    recent: list[str] = field(default_factory=list)
    count: int = 0

    def pick(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def name(self, what: str) -> str:
        self.count += 1
        return f"{self.prefix}{self.count}_{what}"

    def tensor(self, accept: Callable[[Array], bool] = lambda x: True, dtype: str | None = None) -> str:
        """Return a tensor of the chain's type that is accepted, a recent one more often. Raises: UnsuitableError."""
        wanted = dtype or (INT8 if self.kind == INT8 else F32)
        names = [n for n in self.recent if self.dtypes[n] == wanted and accept(self.real[n])]
        if not names:
            raise UnsuitableError("no tensor")
        return names[-1 - int(len(names) * self.rng.random() ** 2.5)]

    def of_rank(self, rank: int) -> str:
        """Return a tensor of this rank, reshaped from another where there is none."""
        try:
            return self.tensor(lambda x: x.ndim == rank)
        except UnsuitableError:
            x = self.tensor()
            total, lengths = self.real[x].size, []
            for _ in range(rank - 1):
                lengths.append(self.pick(*(n for n in range(1, min(total, 24) + 1) if total % n == 0)))
                total //= lengths[-1]
            return self.move("RESHAPE", x, self.ints([*lengths, total]), options="ReshapeOptions")

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.real[name].shape)

    def input(self, shape: Sequence[int]) -> str:
        """Add an input of the chain's type."""
        name = self.name("x")
        x = self.rng.uniform(-3, 3, shape).astype(np.float32)
        if self.hard:
            x = np.where(self.rng.random(shape) < 0.1, self.rng.choice(HARD[np.float32], shape), x).astype(np.float32)
        if self.kind == INT8:
            self.quantised[name] = self.parameters(x)
            x = stored(x.astype(np.float64), INT8, self.quantised[name])
        self.inputs[name], self.dtypes[name] = x, x.dtype.name
        self.real[name] = real(x, self.quantised.get(name))
        self.recent.append(name)
        return name

    def parameters(self, values: Array) -> Quantised:
        """Return parameters for these numbers, some of which may saturate."""
        if not np.isfinite(values).all():
            raise UnsuitableError("not finite")
        low, high = min(float(values.min(initial=0)), 0.0), max(float(values.max(initial=0)), 0.0)
        scale = np.float32(max((high - low) / 255 * self.pick(1.0, 1.0, 0.7), 1e-4))
        return Quantised(scale, int(np.clip(round(-128 - low / float(scale)), -128, 127)))

    def constant(self, value: Any, dtype: Any, quantised: Quantised | None = None) -> str:
        name = self.name("c")
        self.constants[name] = np.asarray(value, dtype)
        self.dtypes[name] = self.constants[name].dtype.name
        if quantised is not None:
            self.quantised[name] = quantised
        self.real[name] = real(self.constants[name], quantised)
        return name

    def ints(self, value: Any) -> str:
        return self.constant(value, np.int32)

    def weights(self, value: Array) -> str:
        """Add weights of f32: of a chain with f16, stored as that and dequantised."""
        if self.kind == F16:
            return self.add("DEQUANTIZE", [self.constant(value, np.float16)], F32)[0]
        return self.constant(value, np.float32)

    def add(
        self,
        op: str,
        inputs: Sequence[str],
        dtype: str,
        options: str = "",
        quantised: Quantised | None = None,
        results: int = 1,
        **fields: Any,
    ) -> list[str]:
        """Add an operator and compute it; its results are of `dtype` (TOPK_V2's second of int32).

        quantised: of 8-bit results; by default parameters that suit the numbers. Raises: UnsuitableError.
        """
        names = [self.name(op.lower()) for _ in range(results)]
        attributes = {"": options, **fields} if options else {}
        node = Node(op, tuple(inputs), tuple(names), attributes)
        with np.errstate(all="ignore"):
            made = computed(node, [self.real[name] if name else None for name in inputs])
        for name, x in zip(names, made, strict=True):
            if x.size > MOST_ELEMENTS or not x.size or x.ndim > 5:
                raise UnsuitableError(f"{op}: {x.shape}")
            if x.dtype.kind == "f" and not self.hard and np.isnan(x).mean() > 0.2:
                raise UnsuitableError(f"{op}: mostly NaN")
            self.dtypes[name] = "int32" if x.dtype.kind in "iu" and dtype != INT8 else dtype
            if self.dtypes[name] == INT8:
                self.quantised[name] = quantised or self.parameters(x)
            if x.dtype.kind == "f":
                with np.errstate(all="ignore"):
                    q = self.quantised.get(name)
                    x = real(stored(x, INT8, q), q) if q is not None else x.astype(np.float32).astype(np.float64)
            self.real[name] = x
        self.nodes.append(node)
        return names

    def move(self, op: str, x: str, *more: str, **fields: Any) -> str:
        """Add an operator that keeps type and parameters of its argument."""
        return self.add(op, [x, *more], self.dtypes[x], quantised=self.quantised.get(x), **fields)[0]

    def arithmetic(self, op: str, inputs: Sequence[str], quantised: Quantised | None = None, **fields: Any) -> str:
        """Add an operator whose result is of the chain's type."""
        return self.add(op, inputs, INT8 if self.kind == INT8 else F32, quantised=quantised, **fields)[0]


Kind = Callable[[TfliteGrowing], Any]
