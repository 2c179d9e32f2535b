"""Windows and filters of convolutions and pooling, for the handlers of all formats."""

from mavcg.importers.call import NodeCall
from mavcg.importers.value import Value

LARGEST_STEP = 1 << 24  # maximum of a window, a stride or a pad
LARGEST_WINDOW = 1 << 28  # maximum of window positions times window size along one axis; no CNN has more


def transposed_filter(call: NodeCall, w: Value, groups: int) -> Value:
    """Return the filter of conv_transpose2d, [O, KH, KW, C/groups]. w: [C, O/groups, KH, KW], as ONNX and Caffe have
    it."""
    in_ch, out_ch, *kernel = w.shape
    w = call.reshape(w, (groups, in_ch // groups, out_ch, *kernel))
    return call.reshape(call.transpose(w, (0, 2, 3, 4, 1)), (groups * out_ch, *kernel, in_ch // groups))
