"""The argument of a handler: one TFLite operator with its inputs and options, and methods to emit its result.

A handler reads 8-bit tensors in one of two forms. `input` returns the 8-bit integers, for operators that only move
elements. `operand` returns the real numbers that they represent, by a dequantize before the operator. If a result is
real and its tensor in the file is 8-bit, the importer adds a quantize. So handlers with `operand` suit every type.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mavcg.graph import TensorType
from mavcg.importers.block_weights import BlockWeights, row_weights
from mavcg.importers.call import NodeCall
from mavcg.importers.limits import LARGEST_BYTES
from mavcg.importers.tflite_model import Quant, TfliteTensor
from mavcg.importers.value import Quantised, Value, constant

_ACTIVATIONS: Mapping[int, tuple[str, Mapping[str, float]]] = {  # schema.fbs, ActivationFunctionType
    1: ("relu", {}),
    2: ("clip", {"lo": -1.0, "hi": 1.0}),
    3: ("clip", {"lo": 0.0, "hi": 6.0}),
    4: ("tanh", {}),
}


@dataclass(frozen=True)
class TfliteCall(NodeCall):
    """One operator of the file.

    inputs: values as they are stored. tensors: the file's descriptions of the inputs; None for absent inputs. results:
    the file's descriptions of the outputs. options: by the accessor's name. dequantized: dequantized values by index of
    the tensor, shared by all calls. nexts: receives the next values of inputs that are states, by their position.
    """

    tensors: tuple[TfliteTensor | None, ...]
    results: tuple[TfliteTensor, ...]
    options: Mapping[str, Any]
    dequantized: dict[int, Value] = field(default_factory=dict)
    nexts: dict[int, Value] = field(default_factory=dict)

    # Inputs

    def tensor(self, i: int) -> TfliteTensor:
        """Return the file's description of an input that is present."""
        self.input(i)
        tensor = self.tensors[i]
        assert tensor is not None
        return tensor

    def operand(self, i: int, rank: int | None = None, rank_min: int = 0) -> Value:
        """Return an input for arithmetic: 8-bit integers dequantized, f16 as f32, other types unchanged.

        If the operator computes on 8-bit integers, an 8-bit constant stays 8-bit and gets a dequantize. Otherwise it is
        converted to f32 here: some files store weights in 8 bits only to be small.
        """
        value, tensor = self.input(i, rank, rank_min), self.tensor(i)
        if value.dtype == "f16":
            return self.cast(value, "f32")
        if not tensor.eight_bit:
            if tensor.quant is not None and value.dtype == "i16":
                raise self.unsupported(f"its input {i} holds 16-bit quantised numbers", "8-bit ones")
            return value
        if value.is_constant:
            return self.dequantize(value, tensor) if self.eight_bit else self.real_constant(value, tensor)
        if tensor.index not in self.dequantized:
            self.dequantized[tensor.index] = self.dequantize(value, tensor)
        return self.dequantized[tensor.index]

    def real_constant(self, value: Value, tensor: TfliteTensor) -> Value:
        """Return an 8-bit constant as f32, made once for all its readers. Raises: MavcgError if it is too large."""
        if tensor.index not in self.dequantized:
            bytes = 4 * value.type.elements
            if bytes > LARGEST_BYTES:
                raise self.fail(f"{tensor.label} takes {bytes} bytes as f32; at most {LARGEST_BYTES}")
            self.emitter.count_bytes(bytes, self.location)
            real = self.dequantize(value, tensor)
            self.dequantized[tensor.index] = constant(real.array, stem=real.stem)
        return self.dequantized[tensor.index]

    def packed_rows(self, i: int) -> BlockWeights | None:
        """Return a matrix, input i, of numbers of 4 bits or with scales of blocks; None for other inputs.

        It is what the file stores, or the result of a DEQUANTIZE.
        """
        value, tensor = self.input(i), self.tensor(i)
        real = self.dequantize(value, tensor) if tensor.packed and value.is_constant else value
        return row_weights(real)

    @property
    def eight_bit(self) -> bool:
        """True if an input that is not a constant holds 8-bit integers."""
        pairs = zip(self.tensors, self.inputs, strict=True)
        return any(t is not None and t.eight_bit and v is not None and not v.is_constant for t, v in pairs)

    def dequantize(self, value: Value, tensor: TfliteTensor) -> Value:
        """Return the real numbers that a quantized tensor represents."""
        quant = tensor.quant
        assert quant is not None
        if quant.block:
            assert value.known is not None  # tflite_tensors.py
            blocks = Quantised(value.known, quant.scale, quant.zero.astype(np.int8), quant.axis, quant.block)
            return Value(TensorType("f32", value.shape), quantised=blocks, stem=value.stem)
        if quant.scale.size > 1 and (quant.axis >= value.rank or value.shape[quant.axis] != quant.scale.size):
            raise self.fail(
                f"{tensor.label}: {quant.scale.size} scales do not match dimension {quant.axis} of {value.type}"
            )
        scale, zero = scale_and_zero(quant, value.dtype)
        return self.add("dequantize", value, scale, zero, axis=quant.axis)

    def all_inputs(self) -> range:
        """Return the indices of all inputs of a variadic operator. Raises: MavcgError if it has no inputs."""
        if not self.inputs:
            raise self.fail("it has no inputs")
        return range(len(self.inputs))

    def alike(self, *inputs: int) -> bool:
        """Return True if these inputs and the first result all have the same quantization, or none has any."""
        result = self.results[0].quant if self.results[0].eight_bit else None
        for tensor in map(self.tensor, inputs):
            quant = tensor.quant if tensor.eight_bit else None
            if (quant is None) != (result is None) or (quant is not None and not quant.same(result)):
                return False
        return True

    def stored_inputs(self, *inputs: int) -> tuple[Value, ...]:
        """Return the inputs of an operator that only selects elements.

        They are as stored if they and the first result share a quantization, else real numbers.
        """
        get = self.input if self.alike(*inputs) else self.operand
        return tuple(get(i) for i in inputs)

    # Options

    def option(self, name: str, default: Any = None) -> Any:
        """Return an option's value. Raises: MavcgError if the file lacks it and there is no default."""
        value = self.options.get(name, default)
        if value is None:
            raise self.fail(f"its option {name} is missing; the file has {', '.join(self.options) or 'none'}")
        return value

    def positive(self, *names: str) -> tuple[int, ...]:
        """Return the values of options. Raises: MavcgError if one is below 1."""
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
        """Apply the operator's fused activation, if any, to a result."""
        number = int(self.option("FusedActivationFunction", 0))
        if number == 0:
            return x
        if number not in _ACTIVATIONS:
            raise self.unsupported(f"fused activation {number}", "none, RELU, RELU_N1_TO_1, RELU6, TANH")
        op, attrs = _ACTIVATIONS[number]
        return self.add(op, x, **attrs)

    # Helpers that many handlers use

    def pad(self, x: Value, before: Sequence[int], after: Sequence[int], value: float, mode: str = "constant") -> Value:
        """Pad a tensor; return it unchanged if all paddings are 0. before, after: paddings of each dimension."""
        if not any(before) and not any(after):
            return x
        if any(n < 0 for n in (*before, *after)):
            raise self.fail(f"paddings {list(before)} and {list(after)}; none may be negative")
        self.check_shape([b + n + a for b, n, a in zip(before, x.shape, after, strict=True)], x)
        return self.add("pad", x, before=tuple(before), after=tuple(after), mode=mode, value=value)

    def zero_of(self, i: int) -> float:
        """Return the stored value that represents 0 in an input: its zero point, or 0 if it is not quantized."""
        tensor = self.tensor(i)
        return float(tensor.quant.zero[0]) if tensor.quant is not None and tensor.eight_bit else 0.0


def scale_and_zero(quant: Quant, dtype: str) -> tuple[Value, Value]:
    """Return the scale and zero point as constants for dequantize and quantize: scalars, or vectors along the axis."""
    shape = () if quant.scale.size == 1 else quant.scale.shape
    return constant(quant.scale.reshape(shape), stem="scale"), constant(quant.zero.reshape(shape), dtype, stem="zero")


Results = Value | tuple[Value, ...]
Handler = Callable[[TfliteCall], Results]
