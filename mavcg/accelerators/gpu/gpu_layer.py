"""A layer as a GPU kernel computes it: element types, channels packed in words of four bytes, activation, residual."""

from dataclasses import dataclass, replace

from mavcg.cost.layer import ConvLayer, ItemBytes
from mavcg.errors import MavcgError

WORD_BYTES = 4
TYPES = ("f32", "f16", "i8")
PACK = {"f32": 1, "f16": 2, "i8": 4, "i32": 1}  # channels in a word
ITEM_BYTES = {"f32": 4, "f16": 2, "i8": 1, "i32": 4}
ACTIVATIONS = {"": "NO_ACTIVATION", "relu": "RELU", "leaky_relu": "LEAKY_RELU", "clip": "CLIP"}
POOLS = ("max_pool", "avg_pool")
ELEMENTWISE = {"copy": "COPY", "add": "ADD", "sub": "SUBTRACT", "mul": "MULTIPLY", "max": "LARGER"}


def round_up(value: int, unit: int) -> int:
    """Return the smallest multiple of `unit` that is at least the value."""
    return -(-value // unit) * unit


@dataclass(frozen=True)
class GpuLayer:
    """A layer with its element types and what is fused into it.

    type: of input and weights. output: of the stored output; i32 for raw int8 sums. kind: "conv" (products with
    weights), or a name of POOLS or ELEMENTWISE; for these the layer has one group per channel. act: a key of
    ACTIVATIONS. act_args: slope of leaky_relu, or bounds of clip. residual: true if another tensor of the output's type
    and shape is added before the activation (f32, f16) or to the requantized value (i8); for an element-wise kind other
    than copy, true if there is a second operand.
    """

    conv: ConvLayer
    type: str = "f32"
    output: str = "f32"
    kind: str = "conv"
    act: str = ""
    act_args: tuple[float, ...] = ()
    residual: bool = False

    def __post_init__(self) -> None:
        wrong = None
        if self.type not in TYPES:
            wrong = f"element type {self.type}; {', '.join(TYPES)} are supported"
        elif self.output not in ((self.type, "i32") if self.type == "i8" else (self.type,)):
            wrong = f"output type {self.output} of {self.type}"
        elif self.act not in ACTIVATIONS:
            wrong = f"activation {self.act}; {', '.join(filter(None, ACTIVATIONS))} are supported"
        elif (self.residual or self.act) and (self.output == "i32" or self.kind in POOLS):
            wrong = "an activation or a residual of raw sums or of pooling"
        if wrong:
            raise MavcgError(f"layer {self.conv.name}: no CUDA kernel has {wrong}")

    @property
    def pack(self) -> int:
        """Input channels per word."""
        return PACK[self.type]

    @property
    def ic_words(self) -> int:
        """Words per input pixel of one group; the last word may be padded with zero channels."""
        return -(-self.conv.ic // self.pack)

    @property
    def is_elementwise(self) -> bool:
        """True if each output element depends on one element of each of the one or two inputs."""
        return self.kind in ELEMENTWISE

    @property
    def is_depthwise(self) -> bool:
        """True if each output channel depends on one input channel alone."""
        return self.conv.groups > 1 and self.conv.ic == self.conv.oc == 1

    @property
    def is_fully_connected(self) -> bool:
        """True for a matrix product with a single pixel."""
        layer = self.conv
        return (
            self.kind == "conv"
            and not self.is_depthwise
            and (layer.oh * layer.ow * layer.ih * layer.iw * layer.kh * layer.kw == 1)
        )

    @property
    def gathers(self) -> bool:
        """True if the channels of some group do not begin at a word boundary."""
        return self.conv.groups > 1 and self.conv.ic % self.pack != 0


def typed_layer(layer: ConvLayer, type_name: str, **options: object) -> GpuLayer:
    """Return a layer in one element type; rows are joined into one if neither kernel nor stride needs separate rows."""
    size, out = ITEM_BYTES[type_name], str(options.get("output", type_name))
    typed = replace(layer, items=ItemBytes(size, size, ITEM_BYTES[out], 4))
    pointwise = typed.kh == typed.kw == 1 and typed.stride == (1, 1) and not any(typed.pads)
    if pointwise and (typed.ih, typed.iw) == (typed.oh, typed.ow):
        pixels = typed.oh * typed.ow
        typed = replace(typed, oh=1, ow=pixels, ih=1, iw=pixels)
    return GpuLayer(typed, type_name, **{"output": out, **options})  # type: ignore[arg-type]
