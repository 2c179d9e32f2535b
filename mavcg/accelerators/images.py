"""Read the inputs of a network from files, for calibration or a run, or generate random inputs from a seed."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from mavcg.accelerators.float_reference import arrange_inputs
from mavcg.accelerators.image.host import HostTensor
from mavcg.accelerators.xgraph import XGraph, XNode
from mavcg.errors import MavcgError
from mavcg.files.array_file import read_arrays
from mavcg.graph import Array

SEEDED_IMAGES = 2
MOST_IMAGES = 32  # more images take time without changing radix positions


def seeded_images(graph: XGraph, count: int = SEEDED_IMAGES, seed: int = 0) -> list[dict[str, Array]]:
    """Return normally distributed random images in the XGraph's order of dimensions, f32."""
    numbers = np.random.default_rng(seed)
    return [
        {node.name: numbers.standard_normal(node.shape).astype(np.float32) for node in graph.inputs()}
        for _ in range(count)
    ]


def read_images(graph: XGraph, path: Path) -> list[dict[str, Array]]:
    """Return the calibration images in a .npz file, or in an .npy file for a network with a single input.

    For each input the file has an array of one image, or of several that are concatenated or stacked.
    Raises: MavcgError naming file, input and shapes.
    """
    loaded = read_arrays(path, f"--calibrate {path}", "give a .npz file")
    given = loaded if isinstance(loaded, Mapping) else {node.name: loaded for node in graph.inputs()[:1]}
    stacks = {}
    for node in graph.inputs():
        if node.name not in given:
            raise MavcgError(f"--calibrate {path}: has no input {node.name}; it has {', '.join(given) or 'nothing'}")
        stacks[node.name] = _stack(node, given[node.name], path)
    counts = {len(stack) for stack in stacks.values()}
    if len(counts) != 1 or 0 in counts:
        raise MavcgError(
            f"--calibrate {path}: inputs with {sorted(counts)} images; give the same number for each, at least one"
        )
    return [
        arrange_inputs(graph, {name: stack[at] for name, stack in stacks.items()})
        for at in range(min(counts.pop(), MOST_IMAGES))
    ]


def _stack(node: XNode, array: Array, path: Path) -> list[Array]:
    """Split an array into images with the batch size of the node."""
    size = int(np.prod(node.shape))
    if array.dtype.kind not in "fiub" or array.ndim == 0 or array.size % size or not array.size:
        raise MavcgError(
            f"--calibrate {path}: {node.name} is {array.dtype} {array.shape}; give numbers, images of {node.shape}"
        )
    batch, count = node.shape[0], array.size // size
    if array.ndim == len(node.shape) + 1 and array.shape[:2] == (count, batch):
        return list(array.astype(np.float32))  # as np.stack makes it of inputs
    if array.shape[0] != batch * count:
        raise MavcgError(f"--calibrate {path}: {node.name} is {array.shape}; stack images along the first dimension")
    return list(array.reshape(count, batch, *array.shape[1:]).astype(np.float32))


def network_inputs(arrays: Mapping[str, Array], tensors: Sequence[HostTensor]) -> dict[str, Array]:
    """Return the inputs of a whole network, f32 in the model's order of dimensions.

    arrays: arrays by name; where the model's order is N, C, H, W, they may be N, H, W, C.
    Raises: MavcgError naming the option, the input and its shape.
    """
    inputs = {}
    for tensor in tensors:
        if tensor.name not in arrays:
            raise MavcgError(f"--input: no array for {tensor.name}; give --input {tensor.name}=X.npy, or --seed 0")
        array = np.asarray(arrays[tensor.name])
        last = (tensor.dims[0], *tensor.dims[2:], tensor.dims[1]) if tensor.nchw else tensor.dims
        if array.shape != tensor.dims and array.shape == last:
            array = array.transpose(0, 3, 1, 2)
        if (
            array.dtype.kind not in "fiub"
            or array.size != np.prod(tensor.dims)
            or (tensor.nchw and array.shape != tensor.dims)
        ):
            raise MavcgError(f"--input {tensor.name}: is {array.dtype} {list(array.shape)}; give {list(tensor.dims)}")
        inputs[tensor.name] = np.ascontiguousarray(array, np.float32).reshape(tensor.dims)
    return inputs


def read_inputs(
    arrays: Mapping[str, Array],
    shapes: Mapping[str, tuple[int, int, int, int]],
    nchw: tuple[str, ...],
    quantisations: Mapping[str, HostTensor],
) -> dict[str, Array]:
    """Return the int8 inputs [N, H, W, C] of a program; real numbers are quantised, integers are kept.

    shapes: N, H, W, C of each input. nchw: inputs whose real numbers may be in the order N, C, H, W.
    quantisations: how each input's int8 stand for real numbers. Raises: MavcgError.
    """
    from mavcg.accelerators.fixed_point import integers_of

    inputs = {}
    for name, shape in shapes.items():
        count, height, width, channels = shape
        if name not in arrays:
            raise MavcgError(f"--input: no array for {name}; give --input {name}=X.npy, or --seed 0")
        array = np.asarray(arrays[name])
        if name in nchw and array.shape == (count, channels, height, width) and array.dtype != np.int8:
            array = array.transpose(0, 2, 3, 1)
        if array.size != np.prod(shape) or array.dtype.kind not in "fiub":
            expected = f"{[count, channels, height, width] if name in nchw else list(shape)}"
            raise MavcgError(f"--input {name}: is {array.dtype} {list(array.shape)}; give {expected}")
        array = np.ascontiguousarray(array).reshape(shape)
        inputs[name] = array if array.dtype == np.int8 else integers_of(quantisations[name], array)
    return inputs
