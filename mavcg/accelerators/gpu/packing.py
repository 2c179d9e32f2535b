"""Tensors and weights in the order that the kernels read: words of one f32, two f16 or four int8 channels."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mavcg.accelerators.gpu.conv_kernel import ConvKernel
from mavcg.accelerators.gpu.gpu_layer import PACK, GpuLayer
from mavcg.accelerators.gpu.kernel_plan import ElementwiseKernel, Kernel, ProductKernel, WindowKernel

Array = NDArray[Any]
DTYPES: dict[str, Any] = {"f32": np.float32, "f16": np.float16, "i8": np.int8, "i32": np.int32}


def pack_tensor(x: Array, type_name: str) -> Array:
    """Return [channels, rows, columns] as [channels / pack, rows, columns, pack]; missing channels are zero."""
    pack = PACK[type_name]
    channels, rows, columns = x.shape
    padded = np.zeros((-(-channels // pack) * pack, rows, columns), DTYPES[type_name])
    padded[:channels] = x
    return np.ascontiguousarray(padded.reshape(-1, pack, rows, columns).transpose(0, 2, 3, 1))


def unpack_tensor(words: Array, channels: int) -> Array:
    """Return [channels, rows, columns] from the words of `pack_tensor`."""
    count, rows, columns, pack = words.shape
    return np.ascontiguousarray(words.transpose(0, 3, 1, 2).reshape(count * pack, rows, columns)[:channels])


def pack_weights(kernel: Kernel, w: Array) -> Array:
    """Return weights in the order that a kernel reads. w: [out channels, in channels of a group, height, width].

    ConvKernel: [group][tile of OC][tile of IC][IC words][KH][KW][TILE_OC], each tile padded to a multiple of 16 bytes.
    ProductKernel: [group][OC][IC words]. WindowKernel: [channel words][KH][KW].
    """
    match kernel:
        case WindowKernel(layer):
            return pack_tensor(w.reshape(layer.conv.groups, layer.conv.kh, layer.conv.kw), layer.type)
        case ProductKernel(layer):
            return _in_words(layer, w)
        case ConvKernel():
            return _in_tiles(kernel, w)
        case ElementwiseKernel():
            raise TypeError("element-wise operators have no weights")


def _in_words(layer: GpuLayer, w: Array) -> Array:
    """Return [group, OC, IC words * pack, KH, KW]; missing channels are zero."""
    conv = layer.conv
    taps = (conv.kh, conv.kw)
    words = np.zeros((conv.groups, conv.oc, layer.ic_words * layer.pack, *taps), DTYPES[layer.type])
    words[:, :, : conv.ic] = w.reshape(conv.groups, conv.oc, conv.ic, *taps)
    return words


def _in_tiles(kernel: ConvKernel, w: Array) -> Array:
    """Return the tiles of a tiled convolution's weights, in the order of its loops."""
    layer, conv, pack = kernel.layer, kernel.layer.conv, kernel.layer.pack
    dtype, taps = DTYPES[layer.type], (conv.kh, conv.kw)
    deep, wide = kernel.reductions * kernel.tile_ic, kernel.oc_tiles * kernel.tile_oc
    padded = np.zeros((conv.groups, wide, deep * pack, *taps), dtype)
    padded[:, : conv.oc, : layer.ic_words * pack] = _in_words(layer, w)
    shape = (conv.groups, kernel.oc_tiles, kernel.tile_oc, kernel.reductions, kernel.tile_ic, pack, *taps)
    ordered = padded.reshape(shape).transpose(0, 1, 3, 4, 6, 7, 2, 5)
    tiles = ordered.reshape(conv.groups * kernel.oc_tiles * kernel.reductions, -1)
    filled = np.zeros((len(tiles), kernel.weight_words * pack), dtype)
    filled[:, : tiles.shape[1]] = tiles
    return filled


def pack_bias(kernel: Kernel, bias: Array, scale: Array | None) -> Array:
    """Return the biases of all channels as bytes, f32 or i32; for int8 layers f32 scales follow.

    bias, scale: [out channels]; without scale the scales are 1.
    """
    if kernel.layer.type != "i8":
        return np.frombuffer(bias.astype(np.float32).tobytes(), np.uint8).copy()
    scales = np.ones(len(bias), np.float32) if scale is None else scale.astype(np.float32)
    return np.frombuffer(bias.astype(np.int32).tobytes() + scales.tobytes(), np.uint8).copy()
