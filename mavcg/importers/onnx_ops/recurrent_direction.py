"""A direction of a recurrent ONNX operator: its weights and biases, which are known, and its activations."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from mavcg.graph import DTYPES, Array
from mavcg.importers.movement import cut
from mavcg.importers.onnx_ops.call import OnnxCall
from mavcg.importers.value import Value, constant

# Graph operator, and defaults of alpha and beta, which functions take from the node's lists in turn. None: the standard
# and onnxruntime differ in the default.
_ACTIVATIONS: Mapping[str, tuple[str, tuple[float | None, ...]]] = {
    "sigmoid": ("sigmoid", ()),
    "tanh": ("tanh", ()),
    "relu": ("relu", ()),
    "affine": ("", (None, None)),
    "leakyrelu": ("leaky_relu", (0.01,)),
    "thresholdedrelu": ("thresholded_relu", (None,)),
    "scaledtanh": ("tanh", (None, None)),
    "hardsigmoid": ("hard_sigmoid", (0.2, 0.5)),
    "elu": ("elu", (1.0,)),
    "softsign": ("softsign", ()),
    "softplus": ("softplus", ()),
}
Product = Callable[[Value], Value]  # [rows, input] -> [rows, gates * hidden]


@dataclass(frozen=True)
class Weights:
    """The weights of a direction. of_input: [gates * hidden, input]; of_state: [gates * hidden, hidden].

    times_input, times_state: functions that emit products with them; None: plain matrix products.
    """

    of_input: Array
    of_state: Array
    times_input: Product | None = None
    times_state: Product | None = None


@dataclass(frozen=True)
class Activation:
    """An activation: its name, a key of _ACTIVATIONS, with alpha and beta as far as it has them."""

    name: str
    values: tuple[float, ...]

    def of(self, call: OnnxCall, x: Value) -> Value:
        """Return the activation of x."""
        op, values = _ACTIVATIONS[self.name][0], [call.scalar(value, x) for value in self.values]
        if self.name == "affine":
            return call.add("add", call.add("mul", x, values[0]), values[1])
        if self.name == "scaledtanh":
            return call.add("mul", call.add(op, call.add("mul", x, values[1])), values[0])
        return call.add(op, x, **dict(zip(("alpha", "beta"), self.values, strict=False)))


ReadWeights = Callable[[OnnxCall, int], Weights]  # (node, number of the direction) -> its weights


@dataclass(frozen=True)
class Direction:
    """A direction of a recurrent operator.

    input_bias, state_bias: biases of the input's and the state's part, [gates * hidden].
    """

    call: OnnxCall
    hidden: int
    weights: Weights
    input_bias: Array
    state_bias: Array
    activations: tuple[Activation, ...]
    clip: float

    def rows(self, array: Array, first: int, count: int = 1) -> Value:
        """Return the rows of `count` gates from `first` on, as a constant."""
        return constant(np.ascontiguousarray(array[first * self.hidden : (first + count) * self.hidden]))

    def input_sums(self, x: Value, bias: Array) -> Value:
        """Return the input's part of all gates, plus a bias. x: [rows, input]."""
        if self.weights.times_input is not None:
            return self.call.add("add", self.weights.times_input(x), constant(bias))
        return self.call.add("matmul", x, constant(self.weights.of_input), constant(bias), transpose_b=True)

    def state_sums(self, hidden: Value) -> Value:
        """Return the state's part of all gates."""
        if self.weights.times_state is not None:
            return self.weights.times_state(hidden)
        return self.call.add("matmul", hidden, constant(self.weights.of_state), transpose_b=True)

    def columns(self, x: Value, first: int, count: int = 1) -> Value:
        """Return the columns of `count` gates from `first` on. x: [batch, gates * hidden]."""
        return cut(self.call, x, {1: (first * self.hidden, (first + count) * self.hidden, 1)})

    def activate(self, i: int, x: Value) -> Value:
        """Return activation i of a gate's sum, clipped first if the node has a clip."""
        if self.clip:
            x = self.call.add("clip", x, lo=-self.clip, hi=self.clip)
        return self.activations[i].of(self.call, x)


def weights_of(call: OnnxCall, i: int, label: str, number: int) -> Array | None:
    """Return one direction of an input [directions, ..], which must be known; None if the input is absent."""
    array = call.maybe_array(i, label)
    if array is not None and (array.ndim < 2 or number >= array.shape[0]):
        raise call.fail(f"its input {label} has the shape {list(array.shape)}; a direction is missing")
    return None if array is None else array[number]


def read_weights(call: OnnxCall, number: int) -> Weights:
    of_input, of_state = weights_of(call, 1, "W", number), weights_of(call, 2, "R", number)
    if of_input is None or of_state is None:
        raise call.fail("its inputs W and R; [directions, gates * hidden, ..] are needed")
    return Weights(np.ascontiguousarray(of_input), np.ascontiguousarray(of_state))


def read_direction(
    call: OnnxCall, stacked: Weights, number: int, gates: int, width: int, defaults: tuple[str, ...]
) -> Direction:
    """Return a direction with its weights and activations. Raises: MavcgError for incompatible shapes."""
    weights, recurrent = stacked.of_input, stacked.of_state
    if weights.ndim != 2 or recurrent.ndim != 2:
        raise call.fail("its inputs W and R; [directions, gates * hidden, ..] are needed")
    hidden = recurrent.shape[1]
    if call.attr_int("hidden_size", hidden) != hidden or not hidden:
        raise call.fail(f"hidden_size {call.attr_int('hidden_size', hidden)} where R has {hidden}")
    if weights.shape != (gates * hidden, width) or recurrent.shape != (gates * hidden, hidden):
        need = f"[{gates * hidden}, {width}] and [{gates * hidden}, {hidden}]"
        raise call.fail(f"W {list(weights.shape)} and R {list(recurrent.shape)} of a direction where {need} are needed")
    bias = weights_of(call, 3, "B", number)
    if bias is None:
        bias = np.zeros(2 * gates * hidden, DTYPES[call.input(0).dtype])
    if bias.shape != (2 * gates * hidden,):
        raise call.fail(f"B {list(bias.shape)} of a direction where [{2 * gates * hidden}] is needed")
    input_bias, state_bias = np.split(bias, 2)
    clip = call.attr_float("clip", 0.0)
    activations = _activations(call, defaults)[number * len(defaults) : (number + 1) * len(defaults)]
    return Direction(call, hidden, stacked, input_bias, state_bias, activations, clip)


def _activations(call: OnnxCall, defaults: tuple[str, ...]) -> tuple[Activation, ...]:
    """Return the activations of all directions. defaults: of each. Raises: UnsupportedOp for unknown ones."""
    count = len(defaults) * (2 if call.attr_str("direction", "forward") == "bidirectional" else 1)
    named = [str(name).lower() for name in call.attrs.get("activations", ()) or defaults * (count // len(defaults))]
    if len(named) != count or any(name not in _ACTIVATIONS for name in named):
        raise call.unsupported(
            f"activations {', '.join(call.attrs['activations'])}", f"{count} of {', '.join(_ACTIVATIONS)}"
        )
    given = [iter(call.attr_floats(f"activation_{which}")) for which in ("alpha", "beta")]
    made = []
    for name in named:
        values = [next(rest, default) for default, rest in zip(_ACTIVATIONS[name][1], given, strict=False)]
        if None in values:
            raise call.unsupported(
                f"{name} without numbers", "with its activation_alpha, and activation_beta if it has one"
            )
        made.append(Activation(name, tuple(float(value) for value in values if value is not None)))
    return tuple(made)
