"""The argument of a handler: one layer with its inputs, parameters and weights, and how to emit its result."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mavcg.graph import DTYPES, Array
from mavcg.importers.caffe_block import FieldBlock
from mavcg.importers.call import NodeCall
from mavcg.importers.emitter import Value, constant
from mavcg.importers.limits import LARGEST_TENSOR_BYTES

LARGEST_STEP = 1 << 24  # of a window, a stride, a pad
LARGEST_WINDOW = 1 << 28  # window positions times window size, along one axis: what is beyond is no CNN


@dataclass(frozen=True)
class CaffeWeights:
    """The blobs of all layers. path: of their file, or where it would be if it is not there (then blobs is None)."""

    path: Path
    blobs: Mapping[str, tuple[Array, ...]] | None


@dataclass(frozen=True)
class CaffeCall(NodeCall):
    """One layer of the file. options: its block of parameters; tops: how many blobs it makes; weights: of all layers.

    read: for each top, whether a layer reads it.
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
        """Return all inputs of a layer that takes any number. Raises: MavcgError where there are fewer than `least`."""
        if len(self.inputs) < least:
            raise self.fail(f"{len(self.inputs)} bottoms; at least {least} are needed")
        return tuple(self.input(i) for i in range(len(self.inputs)))

    # Weights

    def blob(self, i: int, shape: Sequence[int], what: str) -> Value:
        """Return the weights of the layer, in this shape.

        Raises: MavcgError where there is no such blob, or it is of another shape. A blob of 4 dimensions may have ones
        before the shape, as files before 2015 write all blobs.
        """
        if self.weights.blobs is None:
            raise self.fail(
                f"needs weights, and {self.weights.path} is not there; put the .caffemodel there, or name it by "
                "--weights FILE"
            )
        blobs = self.weights.blobs.get(self.origin, ())
        if i >= len(blobs):
            raise self.fail(
                f"its {what} is blob {i}, and {self.weights.path} has {len(blobs)} blobs of this layer; give the "
                ".caffemodel of this prototxt"
            )
        array, needed = blobs[i], tuple(shape)
        legacy = array.ndim == 4 and (1,) * (4 - len(needed)) + needed == array.shape
        if array.shape != needed and not legacy:
            raise self.fail(
                f"its {what} in {self.weights.path} has the shape {list(array.shape)} where {list(needed)} is needed; "
                "give the .caffemodel of this prototxt"
            )
        return constant(array.reshape(needed), "f32", stem=f"{self.origin}.{what}")

    def blob_shape(self, i: int) -> tuple[int, ...] | None:
        """Return the shape that the weights' file gives a blob, None where there is none."""
        blobs = (self.weights.blobs or {}).get(self.origin, ())
        return blobs[i].shape if i < len(blobs) else None

    # Parameters

    def at_least(self, least: int, name: str, value: int, most: int = LARGEST_STEP) -> int:
        """Return the value of a parameter. Raises: MavcgError where it is not from `least` to `most`."""
        if not least <= value <= most:
            raise self.fail(f"{name} is {value}; {least} to {most} is supported")
        return value

    def axis_option(self, rank: int, default: int, name: str = "axis") -> int:
        """Return a parameter that is an axis, counted from 0."""
        return self.axis(self.options.integer(name, default), rank, name)

    def along_h_and_w(self, single: str, stem: str, default: int | None, least: int) -> tuple[int, int]:
        """Return a parameter for height and width: `single` once or twice, or `stem`_h and `stem`_w.

        Raises: MavcgError where both spellings are there, one of _h and _w is missing, or none is without a default.
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

    def check_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return a shape of f32 that the file states. Raises: MavcgError where it is too large."""
        total = DTYPES["f32"].itemsize
        for length in shape:
            total *= max(1, length)  # in Python's whole numbers, which do not overflow
        if total > LARGEST_TENSOR_BYTES:
            raise self.fail(f"a result of shape {list(shape)}; at most {LARGEST_TENSOR_BYTES} bytes")
        return tuple(shape)

    # Images: Caffe has N, C, H, W; graphs have N, H, W, C.

    def image(self, i: int = 0) -> Value:
        """Return an input that is images: N, C, H, W."""
        return self.input(i, rank=4)

    def nhwc(self, x: Value) -> Value:
        """Return N, C, H, W -> N, H, W, C."""
        return self.transpose(x, (0, 2, 3, 1))

    def nchw(self, x: Value) -> Value:
        """Return N, H, W, C -> N, C, H, W."""
        return self.transpose(x, (0, 3, 1, 2))

    def along(self, values: Value, x: Value, axis: int) -> Value:
        """Return the values in a shape that broadcasts to x, their first dimension at an axis of x."""
        return self.reshape(values, (*values.shape, *(1,) * (x.rank - axis - values.rank)))

    def same_shapes(self, values: Sequence[Value]) -> None:
        """Raise MavcgError where inputs differ in shape."""
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
    """A type of layers. parameters: the name of its block, "" for none; fields: those of the block that are read.

    ignored: fields of the block that say nothing about inference.
    """

    import_layer: LayerImporter
    parameters: str = ""
    fields: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ("engine",)
