"""Layers of a prototxt that inference needs, in new or old spelling, without those of training.

Source of the rules: BVLC's Caffe, net.cpp (FilterNet, StateMeetsRule) and upgrade_proto.cpp (UpgradeV1LayerType).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from mavcg.importers.caffe_block import CaffeError, FieldBlock, Scalar

# Types in the old spelling: `layers { type: CONVOLUTION }`.
OLD_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "ABSVAL": "AbsVal",
        "ACCURACY": "Accuracy",
        "ARGMAX": "ArgMax",
        "BNLL": "BNLL",
        "CONCAT": "Concat",
        "CONTRASTIVE_LOSS": "ContrastiveLoss",
        "CONVOLUTION": "Convolution",
        "DECONVOLUTION": "Deconvolution",
        "DATA": "Data",
        "DROPOUT": "Dropout",
        "DUMMY_DATA": "DummyData",
        "EUCLIDEAN_LOSS": "EuclideanLoss",
        "ELTWISE": "Eltwise",
        "EXP": "Exp",
        "FLATTEN": "Flatten",
        "HDF5_DATA": "HDF5Data",
        "HDF5_OUTPUT": "HDF5Output",
        "HINGE_LOSS": "HingeLoss",
        "IM2COL": "Im2col",
        "IMAGE_DATA": "ImageData",
        "INFOGAIN_LOSS": "InfogainLoss",
        "INNER_PRODUCT": "InnerProduct",
        "LRN": "LRN",
        "MEMORY_DATA": "MemoryData",
        "MULTINOMIAL_LOGISTIC_LOSS": "MultinomialLogisticLoss",
        "MVN": "MVN",
        "POOLING": "Pooling",
        "POWER": "Power",
        "RELU": "ReLU",
        "SIGMOID": "Sigmoid",
        "SIGMOID_CROSS_ENTROPY_LOSS": "SigmoidCrossEntropyLoss",
        "SILENCE": "Silence",
        "SOFTMAX": "Softmax",
        "SOFTMAX_LOSS": "SoftmaxWithLoss",
        "SPLIT": "Split",
        "SLICE": "Slice",
        "TANH": "TanH",
        "WINDOW_DATA": "WindowData",
        "THRESHOLD": "Threshold",
    }
)
_MOST_DIMS = 8
_RULE = ("phase", "min_level", "max_level", "stage", "not_stage")


@dataclass(frozen=True)
class CaffeLayer:
    """A layer of the network. bottoms, tops: names of the blobs that it reads and writes. block: all of its fields."""

    name: str
    type: str
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    block: FieldBlock

    @property
    def line(self) -> int:
        """The layer's line in the file."""
        return self.block.line


@dataclass(frozen=True)
class NetInput:
    """An input that the file declares; shape: () if unknown."""

    name: str
    shape: tuple[int, ...]
    line: int


@dataclass(frozen=True)
class CaffeNet:
    """A network for inference. inputs: declared by the fields input, input_dim and input_shape."""

    name: str
    inputs: tuple[NetInput, ...]
    layers: tuple[CaffeLayer, ...]


def read_net(file: FieldBlock) -> CaffeNet:
    """Return the network of a parsed prototxt. Raises: CaffeError for other files and for Caffe's oldest format."""
    new, old = file.blocks("layer"), file.blocks("layers")
    if not new and not old:
        first = file.fields[0][0] if file.fields else "nothing"
        raise CaffeError(f"it has no layer (it begins with {first}); is it a network's prototxt?", 1)
    if new and old:
        raise CaffeError("layers of both spellings, layer and layers; use one of them", old[0].line)
    layers = [_old_layer(block) if old else _layer(block) for block in (new or old)]
    return CaffeNet(file.text("name"), _inputs(file), tuple(layer for layer in layers if _runs(layer.block)))


def _layer(block: FieldBlock) -> CaffeLayer:
    return _make_layer(block, block.text("type"))


def _old_layer(block: FieldBlock) -> CaffeLayer:
    if block.has("layer"):
        raise CaffeError("a layer of Caffe's oldest format; upgrade_net_proto_text rewrites the file", block.line)
    kind = block.scalar("type")
    name = kind.text if kind is not None else ""
    return _make_layer(block, OLD_TYPES.get(name, name))


def _make_layer(block: FieldBlock, kind: str) -> CaffeLayer:
    name = block.text("name")
    if not kind:
        raise CaffeError(f"layer '{name_text(name)}' has no type", block.line)
    return CaffeLayer(name, kind, block.texts("bottom"), block.texts("top"), block)


def name_text(name: str) -> str:
    """Return a name on one line, for messages."""
    text = "".join(c if c.isprintable() else "?" for c in name)
    return text if len(text) <= 80 else text[:77] + "..."


def _runs(block: FieldBlock) -> bool:
    """Return True if the layer's rules include it in inference: phase TEST, level 0, no stages."""
    include, exclude = block.blocks("include"), block.blocks("exclude")
    if include and exclude:
        raise CaffeError("a layer with include and exclude rules; it may have one kind", exclude[0].line)
    if include:
        return any(_meets(rule) for rule in include)
    return not any(_meets(rule) for rule in exclude)


def _meets(rule: FieldBlock) -> bool:
    for name, value in rule.fields:
        if name not in _RULE:
            raise CaffeError(f"{rule.name} has no field '{name_text(name)}'; it has {', '.join(_RULE)}", value.line)
    phase = rule.has("phase") and rule.choice("phase", ("TRAIN", "TEST")) != "TEST"
    return not (phase or rule.integer("min_level", 0) > 0 or rule.integer("max_level", 0) < 0 or rule.scalars("stage"))


def shape_of(block: FieldBlock) -> tuple[int, ...]:
    """Return the lengths of a block of dims. Raises: CaffeError for a length below 1, or too many dimensions."""
    dims = block.integers("dim")
    if len(dims) > _MOST_DIMS or any(dim < 1 for dim in dims):
        raise CaffeError(
            f"dimensions {list(dims)[:_MOST_DIMS]}; each must be at least 1, of at most {_MOST_DIMS}", block.line
        )
    return dims


def _inputs(file: FieldBlock) -> tuple[NetInput, ...]:
    names, shapes = file.scalars("input"), [shape_of(block) for block in file.blocks("input_shape")]
    dims = file.integers("input_dim")
    if shapes and dims:
        raise CaffeError("input_dim and input_shape; use one of them", file.blocks("input_shape")[0].line)
    if dims:
        line = file.scalars("input_dim")[0].line
        if len(dims) != 4 * len(names):
            raise CaffeError(f"{len(dims)} input_dim for {len(names)} inputs; each input has 4", line)
        shapes = [
            shape_of(
                FieldBlock("input_dim", line, tuple(("dim", Scalar(str(d), False, line)) for d in dims[i : i + 4]))
            )
            for i in range(0, len(dims), 4)
        ]
    if len(shapes) != len(names):
        line = names[0].line if names else file.blocks("input_shape")[0].line
        raise CaffeError(f"{len(names)} inputs and {len(shapes)} shapes; each input needs one", line)
    texts = file.texts("input")
    return tuple(NetInput(text, shape, name.line) for text, shape, name in zip(texts, shapes, names, strict=True))
