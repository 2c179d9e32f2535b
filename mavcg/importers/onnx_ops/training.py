"""Handlers of ONNX's steps of training, which update a model's tensors from gradients: Adagrad, Adam, Momentum."""

from collections.abc import Callable, Mapping

import numpy as np

from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results
from mavcg.importers.value import Value


class _Arithmetic:
    """Arithmetic of one type; numbers become constants of it. rate: the learning rate. steps: updates so far."""

    def __init__(self, call: OnnxCall) -> None:
        self.call = call
        self.like = call.input(2)
        if self.like.dtype not in ("f32", "f64") or any(call.input(i).type.elements != 1 for i in (0, 1)):
            raise call.fail(f"a rate of {call.input(0).type}, steps of {call.input(1).type} for {self.like.type}")
        self.rate = call.cast(call.reshape(call.input(0), ()), self.like.dtype)
        self.steps = call.cast(call.reshape(call.input(1), ()), self.like.dtype)
        self.started = self.of("less", 0, self.steps)

    def of(self, op: str, *values: Value | float) -> Value:
        """Return an operator's result."""
        return self.call.add(op, *(self.call.as_value(value, self.like) for value in values))

    def attribute(self, name: str, default: float | None = 0.0) -> float:
        """Return an attribute. default: None if every node has it."""
        return self.call.attr_float(name, default)

    def regular(self, x: Value, gradient: Value) -> Value:
        """Return the gradient with that of the squared norm."""
        return self.of("add", self.of("mul", x, self.attribute("norm_coefficient")), gradient)

    def mix(self, old: Value, new: Value, share: float) -> Value:
        """Return share * old + (1 - share) * new, whose second factor is rounded to f32 as the attribute is."""
        return self.of("add", self.of("mul", old, share), self.of("mul", new, float(np.float32(1) - np.float32(share))))


_Update = Callable[[_Arithmetic, list[Value]], list[Value]]  # (x, gradient, states..) -> (x, states..)


def _adagrad(t: _Arithmetic, tensors: list[Value]) -> list[Value]:
    x, gradient, squares = tensors
    rate = t.of("div", t.rate, t.of("add", 1, t.of("mul", t.steps, t.attribute("decay_factor"))))
    gradient = t.regular(x, gradient)
    squares = t.of("add", squares, t.of("mul", gradient, gradient))
    size = t.of("add", t.of("sqrt", squares), t.attribute("epsilon", 1e-6))
    return [t.of("sub", x, t.of("div", t.of("mul", rate, gradient), size)), squares]


def _adam(t: _Arithmetic, tensors: list[Value]) -> list[Value]:
    x, gradient, mean, squares = tensors
    alpha, beta = t.attribute("alpha", 0.9), t.attribute("beta", 0.999)
    gradient = t.regular(x, gradient)
    mean = t.mix(mean, gradient, alpha)
    squares = t.mix(squares, t.of("mul", gradient, gradient), beta)
    size = t.of("add", t.of("sqrt", squares), t.attribute("epsilon", 1e-6))
    powers = [t.of("sub", 1, t.of("pow", share, t.steps)) for share in (alpha, beta)]
    corrected = t.of("div", t.of("mul", t.rate, t.of("sqrt", powers[1])), powers[0])
    rate = t.of("where", t.started, corrected, t.rate)
    made = t.of("sub", x, t.of("div", t.of("mul", rate, mean), size))
    return [t.of("mul", made, 1 - t.attribute("norm_coefficient_post")), mean, squares]


def _momentum(t: _Arithmetic, tensors: list[Value]) -> list[Value]:
    x, gradient, speed = tensors
    mode, alpha = t.call.attr_str("mode"), t.attribute("alpha", None)
    if mode not in ("standard", "nesterov"):
        raise t.call.fail(f"mode {mode!r}; there are standard and nesterov")
    gradient = t.regular(x, gradient)
    share = t.of("where", t.started, t.attribute("beta", None), 1)
    speed = t.of("add", t.of("mul", speed, alpha), t.of("mul", gradient, share))
    step = speed if mode == "standard" else t.of("add", gradient, t.of("mul", speed, alpha))
    return [t.of("sub", x, t.of("mul", t.rate, step)), speed]


def _updates(update: _Update, states: int) -> Handler:
    """Return the handler of an update of tensors with so many states each."""

    def handler(call: OnnxCall) -> Results:
        kinds = 2 + states
        count, rest = divmod(len(call.inputs) - 2, kinds)
        if count < 1 or rest:
            raise call.fail(f"{len(call.inputs)} inputs; a rate, steps, and {kinds} for each tensor are needed")
        arithmetic = _Arithmetic(call)
        made = []
        for i in range(count):
            tensors = [call.input(2 + kind * count + i) for kind in range(kinds)]
            if len({tensor.type for tensor in tensors}) > 1 or tensors[0].dtype != arithmetic.like.dtype:
                raise call.fail(f"{', '.join(str(tensor.type) for tensor in tensors)}; one type is needed")
            made.append(update(arithmetic, tensors))
        return tuple(tensors[kind] for kind in range(1 + states) for tensors in made)

    return handler


HANDLERS: Mapping[str, Handler] = {
    "Adagrad": _updates(_adagrad, 1),
    "Adam": _updates(_adam, 2),
    "Momentum": _updates(_momentum, 1),
}
