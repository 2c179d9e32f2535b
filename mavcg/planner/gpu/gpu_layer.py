"""Layers as a GPU runs them: types, words of four bytes, activation and residual."""

from dataclasses import dataclass, replace

from mavcg.errors import MavcgError
from mavcg.planner.layer_model.layer import ConvLayer, ItemBytes

WORD_BYTES = 4
TYPES = ("f32", "f16", "i8")
PACK = {"f32": 1, "f16": 2, "i8": 4, "i32": 1}  # channels in a word
ITEM_BYTES = {"f32": 4, "f16": 2, "i8": 1, "i32": 4}
ACTIVATIONS = {"": "NO_ACTIVATION", "relu": "RELU", "leaky_relu": "LEAKY_RELU", "clip": "CLIP"}
POOLS = ("max_pool", "avg_pool")
ELEMENTWISE = {"copy": "COPY", "add": "ADD", "sub": "SUBTRACT", "mul": "MULTIPLY", "max": "LARGER"}


def round_up(value: int, unit: int) -> int:
    """Return the least multiple of `unit` that is not below the value."""
    return -(-value // unit) * unit


@dataclass(frozen=True)
class GpuLayer:
    """A layer with its element types. type: of input and weights; output: of what is stored, i32 for raw int8 sums.

    kind: "conv" (products with weights), of POOLS or of ELEMENTWISE; of both the layer has a group for each channel.
    act: of ACTIVATIONS; act_args: the slope of leaky_relu, the bounds of clip. residual: another tensor of the output's
    type and shape is added before the activation (f32, f16) or to the requantized value (i8); element-wise, it is the
    second operand, of all kinds but copy.
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
            wrong = f"element type {self.type}; {', '.join(TYPES)} are there"
        elif self.output not in ((self.type, "i32") if self.type == "i8" else (self.type,)):
            wrong = f"output type {self.output} of {self.type}"
        elif self.act not in ACTIVATIONS:
            wrong = f"activation {self.act}; {', '.join(filter(None, ACTIVATIONS))} are there"
        elif (self.residual or self.act) and (self.output == "i32" or self.kind in POOLS):
            wrong = "an activation or a residual of raw sums or of pooling"
        if wrong:
            raise MavcgError(f"layer {self.conv.name}: no CUDA kernel has {wrong}")

    @property
    def pack(self) -> int:
        """Channels of the input in a word."""
        return PACK[self.type]

    @property
    def ic_words(self) -> int:
        """Words of one pixel of one group's input; the last one may have channels of zeros."""
        return -(-self.conv.ic // self.pack)

    @property
    def is_elementwise(self) -> bool:
        """True for an operator of one element each of one or two tensors."""
        return self.kind in ELEMENTWISE

    @property
    def is_depthwise(self) -> bool:
        """True if each channel of the output has one of the input alone."""
        return self.conv.groups > 1 and self.conv.ic == self.conv.oc == 1

    @property
    def is_fully_connected(self) -> bool:
        """True for a product with one pixel."""
        layer = self.conv
        return self.kind == "conv" and not self.is_depthwise and (
            layer.oh * layer.ow * layer.ih * layer.iw * layer.kh * layer.kw == 1
        )  # fmt: skip

    @property
    def gathers(self) -> bool:
        """True if the channels of a group do not begin with a word."""
        return self.conv.groups > 1 and self.conv.ic % self.pack != 0


def typed_layer(layer: ConvLayer, type_name: str, **options: object) -> GpuLayer:
    """Return a layer of one element type, its rows joined to one where no kernel or stride needs separate rows."""
    size, out = ITEM_BYTES[type_name], str(options.get("output", type_name))
    typed = replace(layer, items=ItemBytes(size, size, ITEM_BYTES[out], 4))
    pointwise = typed.kh == typed.kw == 1 and typed.stride == (1, 1) and not any(typed.pads)
    if pointwise and (typed.ih, typed.iw) == (typed.oh, typed.ow):
        pixels = typed.oh * typed.ow
        typed = replace(typed, oh=1, ow=pixels, ih=1, iw=pixels)
    return GpuLayer(typed, type_name, **{"output": out, **options})  # type: ignore[arg-type]
