"""Operators of random TFLite chains that move or choose elements."""

from bench.chains.growing import UnsuitableError
from bench.chains.tflite_growing import INT8, TfliteGrowing


def reshape(g: TfliteGrowing) -> None:
    x = g.tensor()
    g.of_rank(g.pick(1, 2, 3, 4))
    total = g.real[x].size
    first = g.pick(*(n for n in range(1, min(total, 24) + 1) if total % n == 0))
    g.move("RESHAPE", x, g.ints(g.pick([first, -1], [1, first, -1], [-1, first, 1])), options="ReshapeOptions")


def transpose(g: TfliteGrowing) -> None:
    x = g.tensor(lambda v: v.ndim >= 2)
    g.move("TRANSPOSE", x, g.ints(g.rng.permutation(g.real[x].ndim)), options="TransposeOptions")


def pad(g: TfliteGrowing) -> None:
    x = g.tensor(lambda v: 1 <= v.ndim <= 4)
    shape = g.shape(x)
    if g.kind != INT8 and g.rng.random() < 0.3:
        mode = g.pick(0, 1)
        pads = [[int(g.rng.integers(min(2, n - 1 + mode) + 1)) for _ in range(2)] for n in shape]
        g.move("MIRROR_PAD", x, g.ints(pads), options="MirrorPadOptions", mode=mode)
    else:
        g.move("PAD", x, g.ints(g.rng.integers(0, 3, (len(shape), 2))), options="PadOptions")


def strided_slice(g: TfliteGrowing) -> None:
    x = g.tensor(lambda v: 1 <= v.ndim <= 4)
    begin, end, strides, masks = [], [], [], {"beginMask": 0, "endMask": 0, "shrinkAxisMask": 0}
    for axis, n in enumerate(g.shape(x)):
        step = g.pick(1, 1, 2, -1, -2)
        first, last = sorted((int(g.rng.integers(n)), int(g.rng.integers(n))))
        if g.rng.random() < 0.1 and len(g.shape(x)) > 1 and not masks["shrinkAxisMask"]:
            masks["shrinkAxisMask"] |= 1 << axis
            first, last, step = first, first + 1, 1
        elif step > 0:
            last += 1
            masks["beginMask"] |= (g.rng.random() < 0.3) << axis
            masks["endMask"] |= (g.rng.random() < 0.3) << axis
        else:
            first, last = last, first - 1
            masks["beginMask"] |= (g.rng.random() < 0.3) << axis
            if last < 0 or g.rng.random() < 0.3:
                masks["endMask"] |= 1 << axis
        begin.append(first)
        end.append(last)
        strides.append(step)
    fields = {name: int(mask) for name, mask in masks.items()}
    g.move("STRIDED_SLICE", x, *map(g.ints, (begin, end, strides)), options="StridedSliceOptions", **fields)


def split(g: TfliteGrowing) -> None:
    x = g.tensor(lambda v: max(v.shape, default=1) > 1)
    axis = g.pick(*(a for a, n in enumerate(g.shape(x)) if n > 1))
    parts = g.pick(*(n for n in range(2, g.shape(x)[axis] + 1) if g.shape(x)[axis] % n == 0))
    if parts > 6:
        raise UnsuitableError("many parts")
    given = [g.ints(axis), x]
    g.add("SPLIT", given, g.dtypes[x], "SplitOptions", g.quantised.get(x), parts, numSplits=parts)


def concat(g: TfliteGrowing) -> None:
    x = g.tensor(lambda v: v.ndim >= 1)
    axis = int(g.rng.integers(g.real[x].ndim))
    y = g.tensor(
        lambda v: (
            v.ndim == g.real[x].ndim
            and all(n == m for a, (n, m) in enumerate(zip(v.shape, g.shape(x), strict=True)) if a != axis)
        )
    )
    axis -= g.pick(0, g.real[x].ndim)
    if g.kind == INT8 and g.quantised[x] != g.quantised[y]:  # LiteRT's kernel has no other
        [y] = g.add("QUANTIZE", [y], INT8, quantised=g.quantised[x])
    g.arithmetic(
        "CONCATENATION",
        [x, y],
        g.quantised.get(x),
        options="ConcatenationOptions",
        axis=axis,
        fusedActivationFunction=0,
    )


def pack(g: TfliteGrowing) -> None:
    x = g.tensor(lambda v: v.ndim <= 3)
    axis = int(g.rng.integers(g.real[x].ndim + 1))
    g.add("PACK", [x, x], g.dtypes[x], "PackOptions", g.quantised.get(x), valuesCount=2, axis=axis)


def gather(g: TfliteGrowing) -> None:
    x = g.tensor(lambda v: 1 <= v.ndim <= 4)
    axis = int(g.rng.integers(g.real[x].ndim))
    indices = g.ints(g.rng.integers(0, g.shape(x)[axis], g.pick((2,), (3,), (2, 2))))
    g.move("GATHER", x, indices, options="GatherOptions", axis=axis)


def small_moves(g: TfliteGrowing) -> None:
    op = g.pick("EXPAND_DIMS", "SQUEEZE", "TILE", "REVERSE_V2")
    x = g.tensor(lambda v: 1 <= v.ndim <= 4)
    rank = g.real[x].ndim
    if op == "EXPAND_DIMS":
        g.move(op, x, g.ints(g.pick(0, -1, rank)), options="ExpandDimsOptions")
    elif op == "SQUEEZE":
        x = g.tensor(lambda v: 1 in v.shape and v.ndim >= 2)
        axis = g.pick(*(a for a, n in enumerate(g.shape(x)) if n == 1))
        g.move(op, x, options="SqueezeOptions", squeezeDims=[axis])
    elif op == "TILE":
        g.move(op, x, g.ints(g.rng.integers(1, 3, rank)), options="TileOptions")
    else:
        g.move(op, x, g.ints([int(g.rng.integers(rank))]), options="ReverseV2Options")


def blocks(g: TfliteGrowing) -> None:
    x = g.of_rank(4)
    _, height, width, channels = g.shape(x)
    if height % 2 == 0 and width % 2 == 0:
        g.move("SPACE_TO_DEPTH", x, options="SpaceToDepthOptions", blockSize=2)
    elif channels % 4 == 0:
        g.move("DEPTH_TO_SPACE", x, options="DepthToSpaceOptions", blockSize=2)
    else:
        raise UnsuitableError("lengths")


def resize(g: TfliteGrowing) -> None:
    x = g.of_rank(4)
    size = g.ints([g.pick(1, 2, 5, 8, 11), g.pick(1, 3, 6, 9)])
    corners, half = g.pick((False, False), (True, False), (False, True))
    op, options = g.pick(
        ("RESIZE_BILINEAR", "ResizeBilinearOptions"), ("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions")
    )
    g.move(op, x, size, options=options, alignCorners=corners, halfPixelCenters=half)
