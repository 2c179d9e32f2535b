"""NASNet-A large and mobile (Zoph et al., "Learning Transferable Architectures", 2018), as TensorFlow's models."""

from typing import TYPE_CHECKING

from bench.seeded_networks.writer import OnnxWriter

if TYPE_CHECKING:
    import onnx

H, PREV = 0, 1  # states of a cell: its input, the output of the cell before; 2 and up: sums
# A cell: pairs of (operation, state), and the states that are no part of its result.
Cell = tuple[tuple[tuple[tuple[str, int], tuple[str, int]], ...], tuple[int, ...]]
_NORMAL: Cell = (
    (
        (("sep5", H), ("sep3", PREV)),
        (("sep5", PREV), ("sep3", PREV)),
        (("mean", H), ("same", PREV)),
        (("mean", PREV), ("mean", PREV)),
        (("sep3", H), ("same", H)),
    ),
    (H,),
)
_REDUCTION: Cell = (
    (
        (("sep5", H), ("sep7", PREV)),
        (("max", H), ("sep7", PREV)),
        (("mean", H), ("sep5", PREV)),
        (("same", 3), ("mean", 2)),
        (("sep3", 2), ("max", H)),
    ),
    (H, PREV, 2),
)
_STEM_CELLS = 2


def nasnet(name: str, side: int, cells: int, filters: int, stem: int) -> "onnx.ModelProto":
    """Return a NASNet-A.

    side: of the image. cells: number of normal cells. filters: of the first cell. stem: channels of the first layer.
    """
    net = OnnxWriter(name)
    x = net.conv(net.image("input", 3, side), stem, 3, 2, "", "VALID")
    before = x
    for number in range(_STEM_CELLS):
        x, before = _cell(net, x, before, int(filters * 2 ** (number - _STEM_CELLS)), _REDUCTION), x
    factor = 1
    for number in range(cells):
        if number in (cells // 3, 2 * (cells // 3)):
            factor *= 2
            x, before = _cell(net, x, before, filters * factor, _REDUCTION), x
        x, before = _cell(net, x, before, filters * factor, _NORMAL), x
    return net.classifier(net.act(x, "Relu"), 1001)


def nasnet_large() -> "onnx.ModelProto":
    """Return NASNet-A (6 @ 4032), 331 x 331: 88.9 million parameters, 23.8 billion multiply-accumulates."""
    return nasnet("nasnet_large", 331, 18, 168, 96)


def nasnet_mobile() -> "onnx.ModelProto":
    """Return NASNet-A (4 @ 1056), 224 x 224: 5.3 million parameters, 0.56 billion multiply-accumulates."""
    return nasnet("nasnet_mobile", 224, 12, 44, 32)


def _cell(net: OnnxWriter, x: str, before: str, filters: int, cell: Cell) -> str:
    """Return a cell's result: the sums that nothing in the cell reads, concatenated."""
    pairs, left_out = cell
    stride = 2 if cell is _REDUCTION else 1
    states = [net.conv(net.act(x, "Relu"), filters, 1, act="", gain=1), _fitted(net, x, before, filters)]
    for pair in pairs:
        parts = [_applied(net, op, states[at], filters, stride if at in (H, PREV) else 1) for op, at in pair]
        states.append(net.add(*parts))
    return net.concat(*(state for at, state in enumerate(states) if at not in left_out))


def _applied(net: OnnxWriter, op: str, x: str, filters: int, stride: int) -> str:
    if op == "same":
        return x
    if op in ("mean", "max"):
        y = net.pool(x, "MaxPool" if op == "max" else "AveragePool", 3, stride)
        return y if net.shape[y][0] == filters else net.conv(y, filters, 1, act="", gain=1)
    for step in (stride, 1):  # twice: ReLU, depthwise, pointwise
        channels = net.shape[x][0]
        x = net.conv(net.act(x, "Relu"), channels, int(op[3:]), step, "", groups=channels, gain=2, bias=False)
        x = net.conv(x, filters, 1, act="", gain=0.5)
    return x


def _fitted(net: OnnxWriter, x: str, before: str, filters: int) -> str:
    """Return the previous cell's output in the size of this cell's input: two shifted halves if it is larger."""
    if x == before:
        return before
    same_size = net.shape[x][1:] == net.shape[before][1:]
    if same_size:
        same = net.shape[before][0] == filters
        return before if same else net.conv(net.act(before, "Relu"), filters, 1, act="", gain=1)
    import numpy as np

    active = net.act(before, "Relu")
    channels, height, width = net.shape[active]
    padded = net.node("Pad", [active, np.array([0, 0, 0, 0, 0, 0, 1, 1], np.int64)])
    shifted = net.node("Slice", [padded, *(np.array(v, np.int64) for v in ([1, 1], [height + 1, width + 1], [2, 3]))])
    net.shape[shifted] = (channels, height, width)
    halves = ((active, filters // 2), (shifted, filters - filters // 2))
    return net.concat(*(net.conv(half, count, 1, 2, "", "VALID", gain=1) for half, count in halves))
