"""Tensors and weights as words."""

import numpy as np
import pytest

from mavcg.accelerators.gpu.conv_kernel import ConvKernel
from mavcg.accelerators.gpu.gpu_layer import PACK, typed_layer
from mavcg.accelerators.gpu.packing import pack_tensor, pack_weights, unpack_tensor
from mavcg.cost.layer import ConvLayer


@pytest.mark.parametrize("type_name", ["f32", "f16", "i8"])
@pytest.mark.parametrize("channels", [1, 3, 4, 5])
def test_unpack_undoes_pack(type_name: str, channels: int) -> None:
    x = np.arange(channels * 6).reshape(channels, 2, 3)

    packed = pack_tensor(x, type_name)

    assert packed.shape[-1] == PACK[type_name] and packed[0, 1, 2, 0] == x[0, 1, 2]
    assert np.array_equal(unpack_tensor(packed, channels), x)


def test_weights_lie_tile_by_tile_with_output_channels_innermost() -> None:
    layer = typed_layer(ConvLayer("c", 5, 3, 4, 4, 1, 2, 4, 5), "f32")
    kernel = ConvKernel(layer, 4, 2, 4, 4, rm=4, rn=1, threads_oc=1, threads_pixels=16)
    w = np.arange(1, 31, dtype=np.float32).reshape(5, 3, 1, 2)

    tiles = pack_weights(kernel, w)

    assert tiles.shape == (2 * 2, 2 * 2 * 4)  # tiles of OC x IC; IC x KW x OC words of each
    assert tiles[0, :4].tolist() == w[:4, 0, 0, 0].tolist() and tiles[0, 4:8].tolist() == w[:4, 0, 0, 1].tolist()
    assert tiles[1, 8:].tolist() == [0] * 8  # the fourth input channel is none
    assert tiles[3, :4].tolist() == [w[4, 2, 0, 0], 0, 0, 0]
