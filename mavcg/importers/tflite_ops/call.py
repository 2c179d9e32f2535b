"""The argument of a handler: one TFLite operator with its inputs and options, and how to emit its result.

8-bit tensors come in two forms. `input` gives the 8-bit numbers themselves, for what only moves them. `operand` gives
the real numbers that they stand for: a dequantize before the operator. Where a result is real and the file has an 8-bit
tensor there, the importer puts a quantize behind it. So a handler that uses `operand` is the same for every type.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mavcg.graph import DTYPES
from mavcg.importers.call import NodeCall
from mavcg.importers.emitter import Value, constant
from mavcg.importers.limits import LARGEST_TENSOR_BYTES
from mavcg.importers.tflite_model import Quant, TfliteTensor

_ACTIVATIONS: Mapping[int, tuple[str, Mapping[str, float]]] = {  # schema.fbs, ActivationFunctionType
    1: ("relu", {}),
    2: ("clip", {"lo": -1.0, "hi": 1.0}),
    3: ("clip", {"lo": 0.0, "hi": 6.0}),
    4: ("tanh", {}),
}


@dataclass(frozen=True)
class TfliteCall(NodeCall):
    """One operator of the file.

    inputs: as they are stored. tensors: what the file says of them, None for those absent. results: what the file says
    of its outputs. dequantized: by tensor, shared by all calls.
    """

    tensors: tuple[TfliteTensor | None, ...]
    results: tuple[TfliteTensor, ...]
    options: Mapping[str, Any]
    dequantized: dict[int, Value] = field(default_factory=dict)

    # Inputs

    def tensor(self, i: int) -> TfliteTensor:
        """Return the file's description of an input that is present."""
        self.input(i)
        found = self.tensors[i]
        assert found is not None
        return found

    def operand(self, i: int, rank: int | None = None, rank_min: int = 0) -> Value:
        """An input to compute with: 8-bit numbers dequantized, f16 as f32, others as they are.

        Constants stay 8-bit numbers, with a dequantize of their own, only where the operator computes on 8-bit numbers:
        weights that a file stores in 8 bits to be small are real numbers here.
        """
        value, tensor = self.input(i, rank, rank_min), self.tensor(i)
        if value.dtype == "f16":
            return self.cast(value, "f32")
        if not tensor.eight_bit:
            if tensor.quant is not None and value.dtype == "i16":
                raise self.unsupported(f"its input {i} holds 16-bit quantised numbers", "8-bit ones")
            return value
        if value.is_constant:
            real = self.dequantize(value, tensor)
            return real if self.eight_bit else constant(real.array, stem=real.stem)
        if tensor.index not in self.dequantized:
            self.dequantized[tensor.index] = self.dequantize(value, tensor)
        return self.dequantized[tensor.index]

    @property
    def eight_bit(self) -> bool:
        """True if an input that is known only at run time holds 8-bit integers."""
        pairs = zip(self.tensors, self.inputs, strict=True)
        return any(t is not None and t.eight_bit and v is not None and not v.is_constant for t, v in pairs)

    def dequantize(self, value: Value, tensor: TfliteTensor) -> Value:
        """Return the real numbers that a tensor stands for."""
        quant = tensor.quant
        assert quant is not None
        if quant.scale.size > 1 and (quant.axis >= value.rank or value.shape[quant.axis] != quant.scale.size):
            raise self.fail(f"{tensor.label}: {quant.scale.size} scales for {value.type}")
        scale, zero = scale_and_zero(quant, value.dtype)
        return self.add("dequantize", value, scale, zero, axis=quant.axis)

    def all_inputs(self) -> range:
        """Return the indices of the inputs of an operator that takes any number. Raises: MavcgError where there is
        none."""
        if not self.inputs:
            raise self.fail("it has no inputs")
        return range(len(self.inputs))

    def alike(self, *inputs: int) -> bool:
        """True if these inputs and the first result have the same quantization, or none."""
        result = self.results[0].quant if self.results[0].eight_bit else None
        for tensor in map(self.tensor, inputs):
            quant = tensor.quant if tensor.eight_bit else None
            if (quant is None) != (result is None) or (quant is not None and not quant.same(result)):
                return False
        return True

    def stored_inputs(self, *inputs: int) -> tuple[Value, ...]:
        """Return the inputs of an operator that only chooses among them: as they are stored where all mean the same."""
        get = self.input if self.alike(*inputs) else self.operand
        return tuple(get(i) for i in inputs)

    # Options

    def option(self, name: str, default: Any = None) -> Any:
        """Return an option. Raises: MavcgError where the file has none and there is no default."""
        value = self.options.get(name, default)
        if value is None:
            raise self.fail(f"its option {name} is missing; the file has {', '.join(self.options) or 'none'}")
        return value

    def positive(self, *names: str) -> tuple[int, ...]:
        """Return the options that count from 1."""
        values = tuple(int(self.option(name)) for name in names)
        for name, value in zip(names, values, strict=True):
            if value < 1:
                raise self.fail(f"its option {name} is {value}; at least 1 is needed")
        return values

    @property
    def has_activation(self) -> bool:
        """True if the operator includes an activation."""
        return int(self.option("FusedActivationFunction", 0)) != 0

    def activate(self, x: Value) -> Value:
        """Return a result after the activation that the operator ends with."""
        number = int(self.option("FusedActivationFunction", 0))
        if number == 0:
            return x
        if number not in _ACTIVATIONS:
            raise self.unsupported(f"fused activation {number}", "none, RELU, RELU_N1_TO_1, RELU6, TANH")
        op, attrs = _ACTIVATIONS[number]
        return self.add(op, x, **attrs)

    # Axes and shapes

    def check_shape(self, shape: Sequence[int], like: Value) -> tuple[int, ...]:
        """Return a shape that the file gives. Raises: MavcgError where a dimension is negative, or it is too large."""
        total = DTYPES[like.dtype].itemsize
        for length in shape:
            total *= max(1, length)  # in Python's whole numbers, which do not overflow
        if any(length < 0 for length in shape) or total > LARGEST_TENSOR_BYTES:
            raise self.fail(f"a result of shape {list(shape)}; at most {LARGEST_TENSOR_BYTES} bytes, none negative")
        return tuple(shape)

    # Small words that many handlers use

    def pad(self, x: Value, before: Sequence[int], after: Sequence[int], value: float, mode: str = "constant") -> Value:
        """Return the elements put around a tensor; nothing where that is none."""
        if not any(before) and not any(after):
            return x
        if any(n < 0 for n in (*before, *after)):
            raise self.fail(f"paddings {list(before)} and {list(after)}; none may be negative")
        self.check_shape([b + n + a for b, n, a in zip(before, x.shape, after, strict=True)], x)
        return self.add("pad", x, before=tuple(before), after=tuple(after), mode=mode, value=value)

    def zero_of(self, i: int) -> float:
        """Return the stored value of an input that stands for 0."""
        tensor = self.tensor(i)
        return float(tensor.quant.zero[0]) if tensor.quant is not None and tensor.eight_bit else 0.0


def scale_and_zero(quant: Quant, dtype: str) -> tuple[Value, Value]:
    """Return the scale and zero point that dequantize and quantize read:

    scalars, or one entry per index of the axis.
    """
    shape = () if quant.scale.size == 1 else quant.scale.shape
    return constant(quant.scale.reshape(shape), stem="scale"), constant(quant.zero.reshape(shape), dtype, stem="zero")


Results = Value | tuple[Value, ...]
Handler = Callable[[TfliteCall], Results]
