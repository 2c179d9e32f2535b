"""Chain number N of a seed: its format, opset, float type and kinds of operators follow from both."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bench.chains import kinds_corners, kinds_eight_bit, kinds_sequences, kinds_shapes, kinds_values, kinds_windows
from bench.chains.chain import ONNX, TFLITE, Chain
from bench.chains.growing import Growing, Kind, grow
from bench.differential.graphs import KINDS as SINGLE_KINDS
from bench.differential.graphs import kinds_of
from bench.differential.part import FLOAT_TYPES

BATCH = 16  # chains of one library
TFLITE_EVERY = 6  # of that many libraries one is of TFLite chains
OPSETS = (9, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23)
SHORTEST, LONGEST = 2, 30
# Of bench.differential.graphs: those that clear the graph's inputs, or that kinds of chains have in a wider form.
LEFT_OUT = frozenset({"com.microsoft.QGemm", "Cast", "CastLike", "TopK", "ArgMax", "ArgMin"})
# Of f64 mavcg has no kernels of these, so that chains with them would be refused.
NOT_IN_F64 = frozenset(
    {
        *("Conv with uneven pads", "ConvTranspose with uneven pads", "MaxPool with uneven pads"),
        *("AveragePool with uneven pads", "LpPool with uneven pads", "Global pool", "Resize of all modes"),
        *("Gelu", "FusedConv", "MaxPool", "AveragePool", "LpPool", "GlobalLpPool", "GlobalMaxPool", "ConvTranspose"),
        *("Resize", "Upsample", "Sin", "Cos", "Tan", "Tanh", "Sigmoid", "Erf", "Elu", "Selu", "Celu", "LeakyRelu"),
        *("HardSigmoid", "Softplus", "Softsign", "HardSwish", "Mish", "Swish", "Pow", "LRN", "GlobalAveragePool"),
        *(
            "LayerNormalization",
            "ThresholdedRelu",
            "Sign",
            "ConvTranspose to a shape",
            "Shrink",
            "com.microsoft.BiasGelu",
            "com.microsoft.FastGelu",
        ),
        *("com.microsoft.Gelu", "com.microsoft.QuickGelu", "com.microsoft.FusedConv", "LSTM, GRU, RNN"),
    }
)
FAMILIES: tuple[Mapping[str, tuple[int, Kind]], ...] = (
    kinds_shapes.KINDS,
    kinds_values.KINDS,
    kinds_corners.KINDS,
    kinds_windows.KINDS,
    kinds_eight_bit.KINDS,
    kinds_sequences.KINDS,
)


def format_of(number: int) -> str:
    """Return the format of a chain, the same for all of a library."""
    return TFLITE if number // BATCH % TFLITE_EVERY == TFLITE_EVERY - 1 else ONNX


def random_chain(seed: int, number: int) -> Chain:
    """Return chain `number`."""
    rng = np.random.default_rng([seed, number, 2])
    if format_of(number) == TFLITE:
        from bench.chains.random_tflite_chain import random_tflite_chain

        return random_tflite_chain(rng, f"g{number}_")
    opset = OPSETS[number // BATCH % len(OPSETS)]
    dtype = FLOAT_TYPES[int(rng.choice(3, p=(0.68, 0.2, 0.12)))]
    part = Growing(f"g{number}_", opset, rng, hard=bool(rng.random() < 0.12), dtype=dtype)
    length = int(rng.integers(SHORTEST, LONGEST + 1))
    while True:
        chain = grow(part, _Kinds(opset, dtype, rng).chosen(), length)
        if len(chain.nodes) >= SHORTEST:
            return chain


class _Kinds:
    """The kinds of operators of one chain: families in random shares, so that chains differ in character."""

    def __init__(self, opset: int, dtype: Any, rng: np.random.Generator) -> None:
        self.opset, self.dtype, self.rng = opset, dtype, rng

    def chosen(self) -> Mapping[str, Kind]:
        chosen: dict[str, Kind] = {}
        for family in FAMILIES:
            if family is kinds_eight_bit.KINDS and (self.dtype != np.float32 or self.rng.random() < 0.6):
                continue
            share = self.rng.uniform(0.3, 1.0)
            chosen |= {
                name: kind
                for name, (since, kind) in family.items()
                if since <= self.opset and self.rng.random() < share
            }
        single: Mapping[str, Callable[[Any], Any]] = {
            name: SINGLE_KINDS[name] for name in kinds_of(self.opset) if name not in LEFT_OUT
        }
        names = list(single)
        chosen |= {names[i]: single[names[i]] for i in self.rng.integers(len(names), size=len(chosen) // 2)}
        if self.dtype == np.float64:
            return {name: kind for name, kind in chosen.items() if name not in NOT_IN_F64}
        return chosen
