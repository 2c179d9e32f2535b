"""Growing of a random ONNX graph: each operator reads tensors that there are, whose values are known."""

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench.chains.chain import Chain, chain_of
from bench.differential.definitions import computed
from bench.differential.part import Array, Part
from bench.differential.reference import NotComputedError

MOST_ELEMENTS = 3000
# Of inputs that are not finite, these have no defined result, or one that depends on the order of comparisons.
UNDEFINED_OF_NAN = frozenset(
    {"TopK", "ArgMax", "ArgMin", "Hardmax", "Cast", "QuantizeLinear", "DynamicQuantizeLinear", "Shrink", "CastLike"}
)
# Magnitudes beyond which a tensor is not read again: what follows would overflow.
TAME = {"float32": 1e6, "float16": 300.0, "float64": 1e9}


class UnsuitableError(Exception):
    """Raised if no tensor of the chain suits an operator, or the chain could not go on with its result."""


@dataclass
class Growing(Part):
    """Builder of a chain. values: of each tensor so far, in its own type. recent: names, the last result at the end."""

    values: dict[str, Array] = field(default_factory=dict)
    recent: list[str] = field(default_factory=list)

    def tensors(self, accept: Callable[[Array], bool]) -> list[str]:
        return [name for name in self.recent if accept(self.values[name])]

    def tensor(self, accept: Callable[[Array], bool]) -> str | None:
        """Return a result or input that is accepted, a recent one more often, or None."""
        names = self.tensors(accept)
        if not names:
            return None
        return names[-1 - int(len(names) * self.rng.random() ** 2.5)]

    def real(self, rank: int | None = None) -> str:
        """Return a tensor of the chain's float type and this rank: one that there is, or a reshaped or new one."""
        name = self.tensor(lambda x: x.dtype == self.dtype and x.ndim >= 1 and rank in (None, x.ndim))
        if name is not None:
            return name
        other = self.tensor(lambda x: x.dtype == self.dtype and x.ndim >= 1)
        if rank is None or other is None or self.rng.random() < 0.1:
            return self.fresh(*Part.shape(self, rank))
        target = self.factors(math.prod(self.shape_of(other)), rank)
        return str(self.add("Reshape", other, self.constant(target, np.int64)))

    def factors(self, total: int, rank: int) -> list[int]:
        """Return lengths, in any order, whose product is `total`."""
        lengths = []
        for _ in range(rank - 1):
            lengths.append(self.pick(*(n for n in range(1, min(total, 24) + 1) if total % n == 0)))
            total //= lengths[-1]
        return [int(n) for n in self.rng.permutation([*lengths, total])]

    def shape(self, rank: int | None = None) -> tuple[int, ...]:
        name = self.tensor(lambda x: x.dtype == self.dtype and x.ndim >= 1 and rank in (None, x.ndim))
        return self.values[name].shape if name and self.rng.random() < 0.9 else super().shape(rank)

    def shape_of(self, name: str) -> tuple[int, ...]:
        return tuple(self.values[name].shape)

    def image(self, channels: int | None) -> tuple[str, int] | None:
        name = self.tensor(lambda x: x.dtype == self.dtype and x.ndim == 4 and channels in (None, x.shape[1]))
        return (name, self.values[name].shape[1]) if name else None

    def input(self, *shape: int, dtype: Any = None, low: float = -3, high: float = 3) -> str:
        """Return a tensor of this shape and type, with no element below `low` if that is positive."""
        wanted = np.dtype(dtype or self.dtype)
        name = self.tensor(
            lambda x: x.shape == shape and x.dtype == wanted and (low < 0 or not x.size or bool(x.min() >= low))
        )
        if name is not None and self.rng.random() < 0.9:
            return name
        if low > 0 and self.rng.random() < 0.5:
            near = self.tensor(lambda x: x.shape == shape and x.dtype == wanted)
            if near is not None:
                return str(self.add("Add", self.add("Abs", near), self.constant(low, wanted)))
        return self.fresh(*shape, dtype=dtype, low=low, high=high)

    def fresh(self, *shape: int, dtype: Any = None, low: float = -3, high: float = 3) -> str:
        """Return a new input, or a constant where there are inputs already."""
        if len(self.inputs) > self.rng.integers(1, 4):
            dtype = np.dtype(dtype or self.dtype)
            if dtype.kind == "f":
                return self.constant(self.rng.uniform(low, high, shape), dtype)
            return self.constant(self.rng.integers(0, 2 if dtype.kind == "b" else 50, shape), dtype)
        name = super().input(*shape, dtype=dtype, low=low, high=high)
        self.values[name] = self.inputs[name]
        return name

    def constant(self, value: Any, dtype: Any = None) -> str:
        name = super().constant(value, dtype)
        self.values[name] = np.asarray(value, dtype)
        return name

    def add(self, op: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: Any) -> Any:
        """Add a node and compute it. Raises: UnsuitableError if the chain cannot go on with its result."""
        made = super().add(op, *inputs, outputs=outputs, domain=domain, **attributes)
        self._compute(self.nodes[-1])
        return made

    def _compute(self, node: Any) -> None:
        given = [self.values[name] if name else np.zeros(0) for name in node.input]
        undefined = any(x.dtype.kind == "f" and not np.isfinite(x).all() for x in given)
        if undefined and node.op_type in UNDEFINED_OF_NAN:
            raise UnsuitableError(f"{node.op_type} of numbers that are not finite")
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                results = computed(node, self.opset, given)
        except NotComputedError as error:
            raise UnsuitableError(str(error)) from error
        for name, result in zip(node.output, results, strict=False):
            value = np.asarray(result)
            if value.size > MOST_ELEMENTS or not value.size or value.ndim > 6:
                raise UnsuitableError(f"{node.op_type}: {value.shape}")
            if value.dtype.kind == "f" and not self.hard and np.isnan(value).mean() > 0.2:
                raise UnsuitableError(f"{node.op_type}: mostly NaN")
            self.values[name] = value

    def check_connected(self, first: int) -> None:
        """Check that new nodes depend on an input, and, but for a share, on the results of others.

        Raises: UnsuitableError.
        """
        results = {name for node in self.nodes[:first] for name in node.output}
        read = {name for node in self.nodes[first:] for name in node.input}
        if not read & (results | set(self.inputs)) or (results and not read & results and self.rng.random() < 0.9):
            raise UnsuitableError("nodes of constants alone, or apart from the chain")

    def keep(self, first: int) -> None:
        """Let what follows read the results of the nodes from number `first` on, and inputs."""
        results = [name for node in self.nodes[first:] for name in node.output if name in self.values]
        for name in (*self.inputs, *results):
            x = self.values[name]
            limit = TAME.get(x.dtype.name, np.inf)
            tame = x.dtype.kind != "f" or float(np.max(np.abs(x[~np.isnan(x)]), initial=0)) < limit
            if name not in self.recent and (tame or self.rng.random() < 0.1):
                self.recent.append(name)


Kind = Callable[[Growing], Any]


def grow(part: Growing, kinds: Mapping[str, Kind], length: int) -> Chain:
    """Return a chain of about `length` operators of these kinds, with every result that nobody reads as an output."""
    names = list(kinds)
    for _ in range(4 * length):
        if len(part.nodes) >= length:
            break
        first, constants, inputs = len(part.nodes), len(part.constants), dict(part.inputs)
        operators, memo, recent = len(part.operators), dict(part.memo), list(part.recent)
        try:
            kinds[names[int(part.rng.integers(len(names)))]](part)
            part.check_connected(first)
            part.keep(first)
            continue
        except (UnsuitableError, IndexError, ValueError):
            pass  # no tensor suits this kind: what it added goes
        for node in part.nodes[first:]:
            for name in node.output:
                part.values.pop(name, None)
        for constant in part.constants[constants:]:
            part.values.pop(constant.name, None)
        for name in set(part.inputs) - set(inputs):
            part.values.pop(name, None)
        del part.nodes[first:], part.constants[constants:], part.operators[operators:]
        part.inputs, part.memo, part.recent = inputs, memo, recent
    read = {name for node in part.nodes for name in node.input}
    results = [name for node in part.nodes for name in node.output if name in part.values]
    part.outputs = [name for name in results if name not in read or part.rng.random() < 0.08]
    return chain_of(part)
