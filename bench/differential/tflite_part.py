"""One random TFLite graph while it is made: its inputs and its operator; and files of many."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench.differential.part import HARD, Array
from bench.tflite_file import File, Quantised


@dataclass
class TflitePart:
    """A graph; `build` writes it into a file and returns its output tensors.

    inputs: arrays by name. quantised: parameters of 8-bit inputs. hard: True if inputs contain NaN, infinities or other
    extreme numbers.
    """

    prefix: str
    operators: list[str] = field(default_factory=list)
    inputs: dict[str, Array] = field(default_factory=dict)
    quantised: dict[str, Quantised] = field(default_factory=dict)
    build: Callable[["File", Mapping[str, int]], int] = lambda file, inputs: 0
    hard: bool = False


def tflite_model(parts: Sequence[TflitePart]) -> bytes:
    """Return one file of independent graphs."""
    file = File()
    inputs: list[int] = []
    outputs: list[int] = []
    for part in parts:
        own = {name: file.tensor(name, _name(x), x.shape, part.quantised.get(name)) for name, x in part.inputs.items()}
        inputs += own.values()
        outputs.append(part.build(file, own))
    return file.to_bytes(inputs, outputs)


def _name(x: Array) -> str:
    return {"float32": "f32", "int32": "i32", "int64": "i64", "int8": "i8", "bool": "bool"}[x.dtype.name]


class TfliteMaker:
    """Builder of a graph: its inputs and its one operator."""

    def __init__(self, part: TflitePart, rng: np.random.Generator) -> None:
        self.part, self.rng = part, rng

    def pick(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def shape(self, rank: int | None = None) -> tuple[int, ...]:
        rank = rank or int(self.rng.integers(1, 5))
        return tuple(int(self.pick(1, 2, 3, 5, 7, 8, 17)) for _ in range(rank))

    def input(self, shape: Sequence[int], dtype: Any = np.float32, low: float = -3, quantised: Any = None) -> str:
        name = f"{self.part.prefix}{len(self.part.inputs)}_x"
        x: Array
        if dtype == np.float32:
            x = self.rng.uniform(low, 3, shape).astype(np.float32)
            if self.part.hard:
                x = np.where(self.rng.random(shape) < 0.1, self.rng.choice(HARD[np.float32], shape), x)
        elif dtype == np.bool_:
            x = self.rng.random(shape) < 0.5
        else:
            info = np.iinfo(dtype)
            x = self.rng.integers(max(info.min, -200), min(info.max, 200), shape, endpoint=True)
        self.part.inputs[name] = np.asarray(x, dtype)
        if quantised is not None:
            self.part.quantised[name] = quantised
        return name

    def operator(
        self,
        op: str,
        given: Sequence[Any],
        dtype: str = "f32",
        shape: Sequence[int] = (1,),
        options: str = "",
        quantised: Quantised | None = None,
        **fields: Any,
    ) -> None:
        """The graph's operator. given: names of inputs, or constants as (array, Quantised or None)."""
        self.part.operators.append(op)
        prefix = self.part.prefix

        def build(file: File, inputs: Mapping[str, int]) -> int:
            indices = [
                inputs[x] if isinstance(x, str) else file.constant(f"{prefix}{i}_c", *x) for i, x in enumerate(given)
            ]
            out = file.tensor(f"{prefix}y", dtype, shape, quantised)
            file.operator(op, indices, out, options=options, **fields)
            return out

        self.part.build = build

    def scale(self) -> Quantised:
        return Quantised(np.float32(self.rng.uniform(0.02, 0.1)), int(self.rng.integers(-20, 20)))
