"""TFLite operators that read or write elements by indices."""

import math
from collections.abc import Mapping

import numpy as np

from mavcg.graph import DTYPES
from mavcg.importers import indices
from mavcg.importers.block_weights import look_up_rows
from mavcg.importers.call import known_at_build
from mavcg.importers.limits import LARGEST_TOP
from mavcg.importers.run_lengths import top_in_run
from mavcg.importers.tflite_ops.call import Handler, Results, TfliteCall
from mavcg.importers.value import constant


def gather(call: TfliteCall) -> Results:
    """Import GATHER along one axis, with or without batch dimensions."""
    x, places = call.input(0, rank_min=1), call.input(1)
    axis, batch = call.axis(int(call.option("Axis", 0)), x.rank), int(call.option("BatchDims", 0))
    if batch:
        return indices.gather_along_batches(call, x, places, axis, batch + places.rank if batch < 0 else batch)
    return indices.gather_found(call, x, places, axis, from_end=False)


def gather_nd(call: TfliteCall) -> Results:
    """Import GATHER_ND."""
    return indices.gather_nd(call, call.input(0, rank_min=1), call.input(1), from_end=False)


@known_at_build("shape")
def scatter_nd(call: TfliteCall) -> Results:
    """Import SCATTER_ND: add the updates (input 1) to a tensor of zeros with the shape in input 2."""
    updates = call.input(1)
    shape = call.check_shape(call.ints(2, "shape"), updates)
    call.emitter.count_bytes(DTYPES[updates.dtype].itemsize * math.prod(shape), call.location)
    zeros = constant(np.zeros(shape, DTYPES[updates.dtype]), stem="zeros")
    return indices.scatter_nd(call, zeros, call.input(0), updates, "add", from_end=False)


def dynamic_update_slice(call: TfliteCall) -> Results:
    """Import DYNAMIC_UPDATE_SLICE: replace a box of input 0 by input 1. It begins at input 2, moved into the tensor."""
    x, update, start = call.input(0, rank_min=1), call.input(1), call.input(2, 1)
    room = [n - m for n, m in zip(x.shape, update.shape, strict=False)]
    if update.rank != x.rank or update.dtype != x.dtype or start.shape != (x.rank,) or min(room) < 0:
        raise call.fail(f"{update.type} at {start.type} of {x.type}")
    if start.dtype not in ("i32", "i64"):
        raise call.fail(f"positions {start.type}; i32 or i64 are needed")
    depth = max((axis + 1 for axis, free in enumerate(room) if free), default=0)
    if not depth or not update.type.elements:
        return x if depth else update
    first = call.add("slice", start, starts=(0,), stops=(depth,), steps=(1,))
    least, most = constant(np.zeros(depth), start.dtype), constant(np.array(room[:depth]), start.dtype)
    first = call.add("min", call.add("max", first, least), most)
    inside = np.stack(np.meshgrid(*map(np.arange, update.shape[:depth]), indexing="ij"), -1)
    call.emitter.count_bytes(inside.nbytes, call.location)
    places = call.add("add", constant(inside, start.dtype), first)
    return indices.scatter_nd(call, x, places, update, "none", from_end=False)


def top_k(call: TfliteCall) -> Results:
    """Import TOPK_V2: the largest elements along the last axis and their places. A run may bring k."""
    x = call.input(0, rank_min=1)
    if len(call.results) != 2:
        raise call.fail(f"{len(call.results)} outputs; the values and their places are needed")
    if call.input(1).array is None:
        values, places = top_in_run(call, x, x.rank - 1, call.input(1), True, LARGEST_TOP)
        return values, call.cast(places, call.results[1].dtype)
    (count,) = call.ints(1, "k", 1)
    if not 0 <= count <= min(x.shape[-1], LARGEST_TOP):
        raise call.unsupported(f"k {count} of {x.shape[-1]} elements", f"up to all of them, and {LARGEST_TOP}")
    best = call.add("arg_top", x, axis=x.rank - 1, count=count)
    return indices.gather_elements(call, x, best, x.rank - 1), call.cast(best, call.results[1].dtype)


def embedding_lookup(call: TfliteCall) -> Results:
    """Import EMBEDDING_LOOKUP: gather rows of input 1 by the indices in input 0.

    Rows of numbers of 4 bits, or with scales of blocks, stay packed in the table.
    """
    table = call.input(1, rank_min=1)
    packed = call.packed_rows(1) if call.tensor(1).packed else None
    if packed is not None:
        return look_up_rows(call, packed, call.input(0), table.shape[-1], from_end=False)
    return indices.gather_along(call, call.operand(1, rank_min=1), call.input(0), 0, from_end=False)


HANDLERS: Mapping[str, Handler] = {
    "DYNAMIC_UPDATE_SLICE": dynamic_update_slice,
    "EMBEDDING_LOOKUP": embedding_lookup,
    "GATHER": gather,
    "GATHER_ND": gather_nd,
    "SCATTER_ND": scatter_nd,
    "TOPK_V2": top_k,
}
