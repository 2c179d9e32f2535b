"""The blocking of matrix products on one core, as the planners of BLAS libraries and of models choose it."""

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np

from mavcg.choose.lowering.lower import lower_graph
from mavcg.choose.tiles.blas_blocks import plan_blas_blocks
from mavcg.choose.tiles.tiles import plan_tiles
from mavcg.cost.board_model import cores_of
from mavcg.cost.kernel_work import registers, work_of
from mavcg.errors import MavcgError
from mavcg.graph import Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.hardware.core import Core
from mavcg.hardware.core_model import CoreModel
from mavcg.runtime.machines import packing_for
from mavcg.specs.blas_blocks import ITEM_BYTES, Blocking
from mavcg.specs.kernel import KernelSpec
from mavcg.toolchain.target import default_target

SIZE = 1024  # rows, columns and terms of the product whose blocking in a model is returned
BLAS, MODELS = "blas", "models"
LIBRARY_TITLES = {BLAS: "BLAS", MODELS: f"model, product of {SIZE}"}


def model_of_core(core: Core) -> CoreModel | None:
    """Return the model of a core of which no board is known, with typical figures where its file has none.

    None for a core that no library with kernels can be built for: x86 without AVX2 and FMA.
    """
    try:
        return cores_of([core.name], default_target(core.arch))[core.name]
    except MavcgError:
        return None


def core_blocking(core: CoreModel) -> dict[str, dict[str, Blocking]]:
    """Return the blocking of products on a core alone, by kind of library (BLAS or MODELS) and data type.

    BLAS: of products of any size, in a library for this core. MODELS: of a product of SIZE x SIZE x SIZE with constant
    weights; a model's plan differs by layer, and a size that is not blocked is that of the whole call.
    """
    return {
        BLAS: {dtype: plan_blas_blocks(dtype, {core.label: core}, {core.label: 1}).blocking for dtype in ITEM_BYTES},
        MODELS: {dtype: _planned_blocking(_spec(dtype, core.machine.arch), core) for dtype in _PRODUCTS},
    }


def _planned_blocking(spec: KernelSpec, core: CoreModel) -> Blocking:
    """Return the sizes in the macro-tile of a product's kernel, and of the register tiles that it emits then."""
    work = work_of(spec)
    assert work is not None  # a product has macro-tiles
    ((_, _, macro),) = plan_tiles([spec], {core.label: core})
    task = work.task(macro.call_rows)
    nc = min(macro.nc or task.oc, task.oc)
    tiles = registers(work, core.machine, macro, nc)
    rows = min(macro.mc or task.oh, task.oh) * task.ow
    return Blocking(tiles.widths.mr, min(tiles.channels, nc), rows, macro.kc or work.terms, nc)


@cache
def _spec(dtype: str, arch: str) -> KernelSpec:
    """Return the kernel of the product of SIZE in an architecture's packing."""
    (spec,) = lower_graph(_PRODUCTS[dtype](), packing_for(default_target(arch))).specs
    return spec


def _f32_product() -> Graph:
    b = GraphBuilder("product")
    x = b.input("x", TensorType("f32", (SIZE, SIZE)))
    return b.finish([b.add("matmul", [x, b.constant(np.ones((SIZE, SIZE), np.float32))])])


def _eight_bit_product() -> Graph:
    b = GraphBuilder("product")
    x = b.input("x", TensorType("u8", (1, 1, SIZE, SIZE)))  # an image of one row
    weights = b.constant(np.ones((SIZE, 1, 1, SIZE), np.int8))
    bias, multiplier = b.constant(np.zeros(SIZE, np.int32)), b.constant(np.ones(SIZE, np.float32))
    inputs = [x, weights, bias, multiplier]
    return b.finish([b.add("qconv2d", inputs, pads=(0, 0, 0, 0), x_zero=0, out_zero=0, lo=0, hi=255, to="u8")])


_PRODUCTS: Mapping[str, Callable[[], Graph]] = {"f32": _f32_product, "u8": _eight_bit_product}
