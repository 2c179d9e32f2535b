"""The Winograd family: activations, layouts, strided views, products saved, memory, prefetches."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from llvmlite import ir

from mavcg.choose.lowering.kernel_code import kernel_module
from mavcg.kernels.primitives.registry import find_primitive
from mavcg.kernels.primitives.winograd import family as winograd
from mavcg.kernels.primitives.winograd.family import (
    ERROR_BOUNDS,
    PRIMITIVES,
    WinogradPrimitive,
    pack_winograd,
    tiles_between,
    winograd_spec,
)
from mavcg.kernels.primitives.winograd.planes import Planes
from mavcg.kernels.primitives.winograd.spec import Winograd
from mavcg.kernels.registry import emit
from mavcg.lab.trials.check import CheckCase, check_all
from mavcg.runtime.machines import machines_for
from mavcg.specs.kernel import Array, Machine, Operand, Step, View
from mavcg.specs.primitive import Epilogue, Layout, Scenario
from mavcg.toolchain.target import host_target, parse_target
from tests.kernels.conftest import Buffer, Compiled, host_machines
from tests.kernels.primitives.conftest import assert_agrees, assert_right

HWC = Layout.HWC
ENDS = Epilogue(bias=True, residual=True, act="relu")


@pytest.mark.parametrize(
    "name", ["winograd_2d_f4_k3_hwc_hwc", "winograd_2d_f2_k3_chw_chw", "winograd_1d_f4_k3_hwc_chwc"]
)
@pytest.mark.parametrize("act", [("silu", ()), ("leaky_relu", (0.1,))], ids=lambda act: str(act[0]))
def test_activations(name: str, act: tuple[str, tuple[float, ...]], host: Machine) -> None:
    case = CheckCase(find_primitive(name), Scenario(5, 9, 8, 1, 3, 19, 1), Epilogue(True, True, *act), 1, 16)
    (checked,) = check_all([case], host, optimised=False)

    assert checked.ok, f"error {checked.max_error}, bound {checked.bound}; {checked.faults}"


def test_long_activations_are_written_for_a_row_of_outputs_only(host: Machine) -> None:
    """Of 36 outputs, six of which are a row."""
    image = strided((1, 12, 12, 16), 16, 12)
    spec = winograd_spec(tiles_between(image, image, 6, 3, True, 16, (1, 1)), image, image, None, False, "", ())
    plain, short, long = (
        kernel_module([replace(spec, act=act)], host, "", host_target()).count("\n") for act in ("", "relu", "silu")
    )

    assert 72 < short - plain < 100 and long < 1.4 * plain


@pytest.mark.long
@pytest.mark.parametrize("kind", ERROR_BOUNDS, ids=str)
@pytest.mark.parametrize("channels", [64, 512])
def test_errors_of_many_channels(kind: tuple[bool, int, int], channels: int) -> None:
    two_d, m, k = kind
    assert_agrees(WinogradPrimitive(HWC, HWC, m, k, two_d), [Scenario(channels, 8, 8, 1, k, 8, k // 2)])


def test_layouts_give_the_same_numbers(host: Machine) -> None:
    scenario = Scenario(17, 7, 9, 1, 3, 18, 1)
    block = 16 if host.arch == "x86_64" else 8
    bits = [
        assert_right([CheckCase(p, scenario, ENDS, 3, block)], host, optimised=False)[0].bits
        for p in PRIMITIVES
        if p.name.removeprefix("winograd_1d_f2_k3_") in ("hwc_hwc", "chwc_chwc", "chw_chw", "hcw_hcw")
    ]
    assert len(bits) == 4 and len(set(bits)) == 1


@pytest.mark.parametrize("otherwise", [{"stride": 2}, {"groups": 2}, {"dilation": 2}, {"k": 5}], ids=str)
def test_only_stride_1_without_groups_or_dilation(otherwise: dict[str, Any]) -> None:
    primitive, plain = WinogradPrimitive(HWC, HWC, 4, 3), Scenario(4, 9, 9, 1, 3, 4)

    assert primitive.applies(plain) and not primitive.applies(replace(plain, **otherwise))


def test_squares_save_more_products_than_rows() -> None:
    layer = Scenario(64, 48, 48, 1, 3, 64, 1)
    saved = {}
    for two_d, m, k in ERROR_BOUNDS:
        if k == 3:
            (stage,) = (
                WinogradPrimitive(HWC, HWC, m, k, two_d)
                .lower(layer, np.zeros((64, 64, 3, 3), np.float32), Epilogue(), 16)
                .stages
            )
            assert isinstance(stage.spec, Winograd)
            saved[two_d, m] = layer.macs / stage.spec.tiles.macs
    assert saved == {
        (True, 2): 2.25,
        (True, 4): 4.0,
        (True, 6): 5.0625,
        (False, 2): 1.5,
        (False, 4): 2.0,
        (False, 6): 2.25,
    }


def test_rows_want_less_memory_than_squares() -> None:
    layer = Scenario(256, 28, 28, 1, 3, 256, 1)
    squares = WinogradPrimitive(HWC, HWC, 4, 3, True, staged=True).workspace_bytes(layer)
    assert WinogradPrimitive(HWC, HWC, 4, 3, True).workspace_bytes(layer) < squares
    assert WinogradPrimitive(HWC, HWC, 4, 3, False).workspace_bytes(layer) < squares


def test_the_next_tiles_pixels_are_asked_for_by_the_one_kernel() -> None:
    def prefetches(machine: Machine, name: str) -> int:
        lowering = find_primitive(name).lower(Scenario(16, 18, 18, 1, 3, 16), np.zeros((16, 16, 3, 3)), ENDS, 16)
        texts = [str(emit(ir.Module(), stage.spec, machine)) for stage in lowering.stages]
        return sum(text.count('@"llvm.prefetch') for text in texts)

    x86 = machines_for((), parse_target("x86_64-linux-gnu"))["generic"]
    arm = machines_for((), parse_target("aarch64-linux-gnu"))["generic"]

    # Of 36 pixels the 24 that this tile has not read, and 16 that will be written.
    assert prefetches(x86, "winograd_2d_f4_k3_hwc_hwc") == 24 + 16
    assert prefetches(x86, "winograd_2d_f2_k3_hwc_hwc") == 8 + 4
    assert prefetches(x86, "winograd_2d_f4_k3_staged_hwc_hwc") == prefetches(x86, "winograd_2d_f4_k3_chw_chw") == 0
    assert prefetches(arm, "winograd_2d_f4_k3_hwc_hwc") == 0


def test_planes_begin_in_different_sets_of_a_cache() -> None:
    for channels in (1, 3, 64, 100, 256, 512):
        planes = Planes(36, 36, channels)
        assert planes.pitch >= channels * 4 and planes.pitch % 64 == 0 and planes.plane >= 36 * planes.pitch
        assert len({i * planes.plane // 64 % 64 for i in range(36)}) == 36
        assert len({i * planes.pitch // 64 % 64 for i in range(6)}) > 2


def strided(shape: tuple[int, ...], pixel: int, row: int) -> View:
    """An image whose pixels and rows are so many elements apart, as inside a larger buffer."""
    n, h, w, c = shape
    return View("f32", shape, (h * row * pixel + 5, row * pixel, pixel, 1))


def run_views(machine: Machine, two_d: bool, parts: int) -> tuple[Array, Array]:
    """(found, wanted) of a batch of two in views with gaps, all ends there, without a border of zeros."""
    rng = np.random.default_rng(5)
    x_view, out_view = strided((2, 12, 9, 10), 13, 11), strided((2, 10, 7, 19), 40, 9)
    other_view = strided((2, 10, 7, 19), 19, 7)
    x, other = rng.standard_normal(x_view.shape), rng.standard_normal(out_view.shape)
    weights, bias = rng.standard_normal((19, 3, 3, 10)), rng.standard_normal(19)
    tiles = tiles_between(x_view, out_view, 4, 3, two_d, 16)
    spec = winograd_spec(tiles, x_view, out_view, other_view, True, "relu", ())
    packed = pack_winograd(spec.tiles, weights)
    step = Step(spec, tuple(Operand(name) for name in ("x", "w", "y", "bias", "other")))
    whole = [View("f32", a.shape, tuple(s // 4 for s in a.strides)) for a in (packed, bias.astype(np.float32))]
    buffers = [
        Buffer(view, values)
        for view, values in ((x_view, x), (whole[0], packed), (out_view, None), (whole[1], bias), (other_view, other))
    ]
    edges = [spec.rows * part // parts for part in range(parts + 1)]
    pointers = [buffer.pointer for buffer in buffers]
    Compiled([step], machine).run(step, pointers, list(zip(edges, edges[1:], strict=False))[::-1])
    buffers[2].assert_surroundings_untouched()
    rounded: list[Any] = [a.astype(np.float32).astype(np.float64) for a in (x, weights, bias, other)]
    taps = np.lib.stride_tricks.sliding_window_view(rounded[0], (3, 3), (1, 2))
    expected = np.einsum("nyxiab,oabi->nyxo", taps, rounded[1]) + rounded[2] + rounded[3]
    return np.array(buffers[2].inner), np.maximum(expected, 0)


@pytest.mark.parametrize(("two_d", "parts"), [(True, 3), (False, 2)])
def test_batches_and_strided_views(two_d: bool, parts: int) -> None:
    outputs, expected = run_views(host_machines()[0], two_d, parts)

    assert np.abs(outputs - expected).max() < 1e-5 * np.abs(expected).max()


def test_bounds_are_listed_for_every_primitive() -> None:
    assert len(PRIMITIVES) >= 20 and winograd.EMIT
    for primitive in PRIMITIVES:
        assert 1e-6 < primitive.error_bound <= 1.2e-4
