"""Rotation of pairs of elements by angles of positions (rotary embeddings), of which several operators are made."""

from mavcg.importers.movement import cut
from mavcg.importers.onnx_ops.call import OnnxCall
from mavcg.importers.value import Value


def rotate(call: OnnxCall, x: Value, cos: Value, sin: Value, interleaved: bool) -> Value:
    """Return x [a, b, c, size] with its first elements rotated; the others stay.

    cos, sin: of half as many elements as are rotated; they broadcast to [a, b, c, half]. interleaved: pairs are
    neighbours, else element i and element half + i.
    """
    *outer, size = x.shape
    half = cos.shape[-1]
    last = x.rank - 1
    if interleaved:
        pairs = call.reshape(cut(call, x, {last: (0, 2 * half, 1)}), (*outer, half, 2))
        first, second = (call.reshape(cut(call, pairs, {last + 1: (i, i + 1, 1)}), (*outer, half)) for i in (0, 1))
    else:
        first, second = cut(call, x, {last: (0, half, 1)}), cut(call, x, {last: (half, 2 * half, 1)})
    turned = [
        call.add("sub", call.add("mul", first, cos), call.add("mul", second, sin)),
        call.add("add", call.add("mul", second, cos), call.add("mul", first, sin)),
    ]
    if interleaved:
        columns = [call.reshape(part, (*part.shape, 1)) for part in turned]
        turned = [call.reshape(call.add("concat", *columns, axis=last + 1), (*outer, 2 * half))]
    rest = [cut(call, x, {last: (2 * half, size, 1)})] if 2 * half < size else []
    return call.add("concat", *turned, *rest, axis=last) if len(turned) + len(rest) > 1 else turned[0]
