"""Importer of Caffe networks: a prototxt and the caffemodel of its weights become a graph for inference."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from mavcg.errors import MavcgError, OptionError
from mavcg.files.bounded_read import read_bounded
from mavcg.graph import Graph, TensorType, fresh_names
from mavcg.importers.caffe_block import CaffeError
from mavcg.importers.caffe_net import CaffeLayer, CaffeNet, name_text, read_net, shape_of
from mavcg.importers.caffe_ops.call import CaffeCall, CaffeWeights, LayerType
from mavcg.importers.caffe_ops.table import DATA, LAYERS, TRAINING
from mavcg.importers.caffe_text import parse_prototxt
from mavcg.importers.caffe_weights import read_caffemodel
from mavcg.importers.call import results_of
from mavcg.importers.emitter import Emitter, finish_graph
from mavcg.importers.limits import LARGEST_TENSOR_BYTES, LISTED, UnsupportedOp
from mavcg.importers.value import Value

_LARGEST_TEXT = 1 << 26  # maximum bytes of a prototxt; the largest networks have about 100 kB
# Fields of every layer that do not affect inference or are read elsewhere.
_COMMON = frozenset(
    {
        "name",
        "type",
        "bottom",
        "top",
        "phase",
        "loss_weight",
        "param",
        "propagate_down",
        "include",
        "exclude",
        "transform_param",
        "loss_param",
        "blobs_lr",
        "weight_decay",
        "blob_share_mode",
    }
)


def import_caffe(
    path: Path, shapes: Mapping[str, tuple[int, ...]] = MappingProxyType({}), weights: Path | None = None
) -> Graph:
    """Return the graph of a Caffe network; its inputs and outputs carry the names of the file's blobs.

    path: the prototxt. shapes: shapes of inputs, by name, instead of those in the file. weights: the caffemodel; None:
    the file beside the prototxt with the same name.
    Raises: UnsupportedOp for an unsupported layer, MavcgError, naming file and line, for files that are damaged or do
    not match.
    """
    try:
        net = read_net(parse_prototxt(_text(path)))
        return _CaffeImport(net, path, shapes, _weights(path, weights)).graph()
    except CaffeError as error:
        raise MavcgError(f"{path}:{error.line}: {_one_line(error)}") from error
    except MavcgError as error:
        # An error of the same class, so that callers can distinguish kinds.
        error.args = (_one_line(error), *error.args[1:])
        raise


def _one_line(error: MavcgError) -> str:
    return "".join(c if c.isprintable() else " " for c in str(error))


def _text(path: Path) -> str:
    try:
        data = read_bounded(path, _LARGEST_TEXT)
    except OSError as error:
        raise MavcgError(f"{path}: cannot be read ({error.strerror}); name a prototxt") from error
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise MavcgError(f"{path}:{line}: is not UTF-8; name the prototxt, not its .caffemodel") from error


def _weights(path: Path, path_of_weights: Path | None) -> CaffeWeights:
    file = path_of_weights or path.with_suffix(".caffemodel")
    if path_of_weights is None and not file.exists():
        return CaffeWeights(file, None)
    return CaffeWeights(file, read_caffemodel(file))


class _CaffeImport:
    """The state of an import. values: blobs so far, by name; a layer that writes its bottom in place replaces it."""

    def __init__(self, net: CaffeNet, path: Path, shapes: Mapping[str, tuple[int, ...]], weights: CaffeWeights) -> None:
        self.net = net
        self.path = path
        self.shapes = shapes
        self.weights = weights
        self.emitter = Emitter(net.name or path.stem)
        self.values: dict[str, Value] = {}
        self.inputs: list[str] = []
        self.unread: dict[str, None] = {}  # blobs that no layer has read yet, in order

    def graph(self) -> Graph:
        for declared in self.net.inputs:
            self.add_input(declared.name, declared.shape, declared.line)
        for i, layer in enumerate(self.net.layers):
            try:
                self.convert(layer, self.net.layers[i + 1 :])
            except CaffeError:
                raise
            except MavcgError as error:
                error.args = (f"{self.path}:{layer.line}: {error}", *error.args[1:])
                raise
        for name in self.shapes:
            if name not in self.inputs:
                known = ", ".join(self.inputs) or "none"
                raise OptionError(f"{self.path}: --shape {name}: no such input; inputs are {known}")
        outputs = list(self.unread)
        if not outputs:
            raise MavcgError(f"{self.path}: the file has no outputs; nothing would be computed")
        names = fresh_names(self.inputs, outputs)
        return finish_graph(self.emitter, self.inputs, names, [self.values[name] for name in outputs])

    def add_input(self, name: str, declared: tuple[int, ...], line: int) -> None:
        """Add an input of the network. declared: its shape in the file, () if unknown."""
        shape = self.shapes.get(name, declared)
        if not shape:
            raise CaffeError(
                f"input '{name_text(name)}' has no shape; give it, as --shape {name_text(name)}=1x3x224x224", line
            )
        if declared and len(shape) != len(declared):
            given = "x".join(map(str, shape))
            raise MavcgError(f"{self.path}:{line}: --shape {name}={given}: the file has {len(declared)} dimensions")
        total = 4
        for length in shape:
            total *= length  # Python's integers do not overflow
        if any(n < 1 for n in shape) or total > LARGEST_TENSOR_BYTES:
            raise CaffeError(
                f"input '{name_text(name)}': {list(shape)} takes {total} bytes; at most "
                f"{LARGEST_TENSOR_BYTES}, each length at least 1",
                line,
            )
        if not name or name in self.values:
            raise CaffeError(f"an input called '{name_text(name)}': the name is invalid or taken", line)
        type = TensorType("f32", shape)
        self.values[name] = Value(type, self.emitter.builder.input(name, type))
        self.inputs.append(name)

    def convert(self, layer: CaffeLayer, later_layers: Sequence[CaffeLayer]) -> None:
        """Add a layer to the graph. later_layers: the layers after it."""
        if layer.type in DATA:
            self.convert_data(layer, later_layers)
            return
        location = f"layer '{name_text(layer.name)}' ({name_text(layer.type)})"
        if layer.type in TRAINING:
            raise UnsupportedOp(f"{location}: is for training; give the network's deploy prototxt")
        known = LAYERS.get(layer.type)
        if known is None:
            raise UnsupportedOp(f"{location}: this layer is not supported; {LISTED}")
        _check_fields(layer, known, location)
        values = tuple(self.read(name, location) for name in layer.bottoms)
        options = layer.block.block(known.parameters or "_")
        reads = tuple(any(top in later.bottoms for later in later_layers) for top in layer.tops)
        call = CaffeCall(
            self.emitter,
            name_text(layer.type),
            name_text(layer.name),
            values,
            options,
            len(layer.tops),
            reads,
            self.weights,
        )
        made = known.import_layer(call)
        results = results_of(made)
        if len(results) != len(layer.tops):
            raise call.fail(f"{len(layer.tops)} tops where it has {len(results)}")
        for i, (name, value) in enumerate(zip(layer.tops, results, strict=True)):
            in_place = i < len(layer.bottoms) and layer.bottoms[i] == name
            if name in self.values and not in_place:
                raise call.fail(f"its top '{name_text(name)}' is already made by another layer")
            self.values[name] = value
            self.unread[name] = None
        if layer.type == "Pooling" and len(layer.tops) > 1:  # positions of the maxima, which no layer reads
            self.unread.pop(layer.tops[1], None)

    def convert_data(self, layer: CaffeLayer, later_layers: Sequence[CaffeLayer]) -> None:
        """Add the tops of a data layer as inputs; tops that no layer reads, such as labels, are left out."""
        declared = _data_shapes(layer)
        for i, name in enumerate(layer.tops):
            if layer.type == "Input" or any(
                name in later.bottoms and later.type not in TRAINING for later in later_layers
            ):
                self.add_input(name, declared[i] if i < len(declared) else (), layer.line)

    def read(self, name: str, location: str) -> Value:
        """Return the value of a blob that a layer reads."""
        if name not in self.values:
            raise MavcgError(f"{location}: its bottom '{name_text(name)}' is not the top of an earlier layer")
        self.unread.pop(name, None)
        return self.values[name]


def _data_shapes(layer: CaffeLayer) -> Sequence[tuple[int, ...]]:
    """Return the declared shapes of a data layer's tops; layers other than Input and DummyData declare at most one."""
    blocks = {"Input": "input_param", "DummyData": "dummy_data_param"}
    if layer.type in blocks:
        shapes = [shape_of(block) for block in layer.block.block(blocks[layer.type]).blocks("shape")]
        if len(shapes) not in (1, len(layer.tops)) and (shapes or layer.type == "Input"):
            location = f"layer '{name_text(layer.name)}' ({layer.type})"
            raise CaffeError(f"{location}: {len(shapes)} shapes for {len(layer.tops)} tops", layer.line)
        return shapes * len(layer.tops) if len(shapes) == 1 else shapes
    if layer.type == "MemoryData":
        block = layer.block.block("memory_data_param")
        dims = tuple(block.integer(name, 0) for name in ("batch_size", "channels", "height", "width"))
        return [dims] if all(dims) else []
    return []


def _check_fields(layer: CaffeLayer, known: LayerType, location: str) -> None:
    """Check a layer's fields. Raises: CaffeError for an unknown field, which may change what the layer computes."""
    for name, value in layer.block.fields:
        if name not in _COMMON and not name.endswith("_param"):
            raise CaffeError(f"{location}: a layer has no field '{name_text(name)}'", value.line)
    fields = (*known.fields, *known.ignored)
    for name, value in layer.block.block(known.parameters or "_").fields:
        if name not in fields:
            raise CaffeError(
                f"{location}: {known.parameters}: field '{name_text(name)}' is not supported; supported: "
                f"{', '.join(fields)}",
                value.line,
            )
