"""The argument of Caffe handlers: a layer with its inputs, parameters and weights, and methods to emit its result."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mavcg.graph import Array
from mavcg.importers.caffe_block import FieldBlock
from mavcg.importers.call import NodeCall
from mavcg.importers.value import Value, constant
from mavcg.importers.windows import LARGEST_STEP


@dataclass(frozen=True)
class CaffeWeights:
    """The blobs of all layers, by layer. path: their file, which need not exist; blobs is None if it does not."""

    path: Path
    blobs: Mapping[str, tuple[Array, ...]] | None


@dataclass(frozen=True)
class CaffeCall(NodeCall):
    """A layer of the file.

    options: its block of parameters. tops: number of blobs that it makes. read: for each top, True if a layer reads it.
    weights: of all layers.
    """

    options: FieldBlock
    tops: int
    read: tuple[bool, ...]
    weights: CaffeWeights

    @property
    def location(self) -> str:
        """Return the layer's name for error messages."""
        return f"layer '{self.origin}' ({self.op})"

    def values(self, least: int = 1) -> tuple[Value, ...]:
        """Return all inputs of a layer with any number of them. Raises: MavcgError for fewer than `least`."""
        if len(self.inputs) < least:
            raise self.fail(f"{len(self.inputs)} bottoms; at least {least} are needed")
        return tuple(self.input(i) for i in range(len(self.inputs)))

    # Weights

    def blob(self, i: int, shape: Sequence[int], description: str) -> Value:
        """Return blob i of the layer's weights, of this shape. description: its description, for messages.

        A blob of 4 dimensions may have leading ones, as in files before 2015. Raises: MavcgError for a missing blob or
        another shape.
        """
        if self.weights.blobs is None:
            raise self.fail(
                f"needs weights, and {self.weights.path} is not there; put the .caffemodel there, or name it by "
                "--weights FILE"
            )
        blobs = self.weights.blobs.get(self.origin, ())
        if i >= len(blobs):
            raise self.fail(
                f"its {description} is blob {i}, and {self.weights.path} has {len(blobs)} blobs of this layer; "
                "give the .caffemodel of this prototxt"
            )
        array, needed = blobs[i], tuple(shape)
        legacy = array.ndim == 4 and (1,) * (4 - len(needed)) + needed == array.shape
        if array.shape != needed and not legacy:
            raise self.fail(
                f"its {description} in {self.weights.path} has the shape {list(array.shape)} where {list(needed)} is "
                "needed; give the .caffemodel of this prototxt"
            )
        return constant(array.reshape(needed), "f32", stem=f"{self.origin}.{description}")

    def blob_shape(self, i: int) -> tuple[int, ...] | None:
        """Return the shape of a blob in the weights' file; None for a missing blob."""
        blobs = (self.weights.blobs or {}).get(self.origin, ())
        return blobs[i].shape if i < len(blobs) else None

    # Parameters

    def at_least(self, least: int, name: str, value: int, most: int = LARGEST_STEP) -> int:
        """Return the value of a parameter. Raises: MavcgError unless it is within least .. most."""
        if not least <= value <= most:
            raise self.fail(f"{name} is {value}; supported: {least} to {most}")
        return value

    def axis_option(self, rank: int, default: int, name: str = "axis") -> int:
        """Return a parameter that is an axis, counted from 0. rank: number of dimensions."""
        return self.axis(self.options.integer(name, default), rank, name)

    def along_h_and_w(self, single: str, stem: str, default: int | None, least: int) -> tuple[int, int]:
        """Return (height, width) of a parameter: `single` given once or twice, or `stem`_h and `stem`_w.

        Raises: MavcgError for both spellings, only one of _h and _w, or no value without a default.
        """
        names = (f"{stem}_h", f"{stem}_w")
        values = self.options.integers(single)
        if any(self.options.has(name) for name in names):
            if values or not all(self.options.has(name) for name in names):
                raise self.fail(f"{single} or both {names[0]} and {names[1]} are needed")
            values = tuple(self.options.integer(name, 0) for name in names)
        if not values and default is not None:
            values = (default,)
        if len(values) not in (1, 2):
            raise self.fail(f"{len(values)} values of {single}; 1 or 2 are needed")
        for value in values:
            self.at_least(least, single, value)
        return values[0], values[-1]

    # Images: Caffe has N, C, H, W; graphs have N, H, W, C.

    def image(self, i: int = 0) -> Value:
        """Return input i, which must be images N, C, H, W."""
        return self.input(i, rank=4)

    def nhwc(self, x: Value) -> Value:
        """Return images N, C, H, W transposed to N, H, W, C."""
        return self.transpose(x, (0, 2, 3, 1))

    def nchw(self, x: Value) -> Value:
        """Return images N, H, W, C transposed to N, C, H, W."""
        return self.transpose(x, (0, 3, 1, 2))

    def along(self, values: Value, x: Value, axis: int) -> Value:
        """Return `values` in a shape that broadcasts to x, with their first dimension at `axis` of x."""
        return self.reshape(values, (*values.shape, *(1,) * (x.rank - axis - values.rank)))

    def same_shapes(self, values: Sequence[Value]) -> None:
        """Check that inputs have the same shape. Raises: MavcgError."""
        if any(value.shape != values[0].shape for value in values):
            raise self.fail(f"bottoms of shapes {', '.join(str(list(v.shape)) for v in values)}; equal ones are needed")

    def linear(self, x: Value, scale: float, shift: float) -> Value:
        """Return shift + scale * x."""
        if scale != 1.0:
            x = self.add("mul", x, self.scalar(scale, x))
        return x if shift == 0.0 else self.add("add", x, self.scalar(shift, x))


Results = Value | tuple[Value, ...]
LayerImporter = Callable[[CaffeCall], Results]


@dataclass(frozen=True)
class LayerType:
    """A type of layer.

    parameters: name of its block of parameters, or "". fields: supported fields of the block. ignored: fields of the
    block that do not affect inference.
    """

    import_layer: LayerImporter
    parameters: str = ""
    fields: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ("engine",)
