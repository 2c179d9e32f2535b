"""Caches of GroupQueryAttention in numbers of 8 and 4 bits: how a run's keys and values become such numbers.

Source: onnxruntime, schema of GroupQueryAttention (k_quant_type, v_quant_type, kv_cache_bit_width), version 1.32.
"""

from dataclasses import replace

import numpy as np

from mavcg.importers.movement import cut
from mavcg.importers.onnx_narrow import NARROW, cast_narrow, read_bits, to_bits
from mavcg.importers.onnx_ops.call import OnnxCall
from mavcg.importers.value import Value, constant

UINT4, FLOAT8 = "uint4", "float8e4m3fn"
_KINDS = ("PER_TENSOR", "PER_CHANNEL")


def cache_form(call: OnnxCall) -> str:
    """Return the type of the numbers of both caches: "", those of the query, "i8", UINT4 or FLOAT8.

    Raises: MavcgError for other forms.
    """
    kinds = [call.attr_str(f"{which}_quant_type", "NONE") for which in "kv"]
    if kinds[0] != kinds[1] or kinds[0] not in ("NONE", *_KINDS):
        raise call.unsupported(
            f"k_quant_type {kinds[0]} and v_quant_type {kinds[1]}", "both NONE, PER_TENSOR, PER_CHANNEL"
        )
    if kinds[0] == "NONE":
        return ""
    bits = call.attr_int("kv_cache_bit_width", 8)
    types = [cache and (cache.narrow or cache.dtype) for cache in map(call.maybe, (3, 4))]
    for dtype, width, form in (("i8", 8, "i8"), ("u8", 4, UINT4), (FLOAT8, 8, FLOAT8)):
        if types == [dtype, dtype] and bits == width:
            return form
    raise call.unsupported(
        f"quantised caches {types} of {bits} bits", "caches of int8 and float8e4m3fn, of 8 bits, and of uint8, of 4"
    )


def cache_scale(call: OnnxCall, number: int, key_heads: int, size: int) -> Value:
    """Return the scale of a quantised cache, [1 or key heads, 1 or size]. number: 0 of keys, 1 of values."""
    which = "kv"[number]
    per_channel = call.attr_str(f"{which}_quant_type") == "PER_CHANNEL"
    scale, shape = call.input(12 + number), (key_heads, size) if per_channel else (1, 1)
    if scale.type.elements != shape[0] * shape[1]:
        raise call.fail(f"{which}_scale {scale.type} where {shape[0] * shape[1]} elements are needed")
    return call.reshape(call.cast(scale, "f32"), shape)


def quantise_rows(call: OnnxCall, x: Value, scale: Value | None, form: str) -> Value:
    """Return keys or values [batch, tokens, key heads, size] in the numbers of the cache; two of UINT4 in a byte."""
    if scale is None:
        return x
    numbers = call.add("div", x, call.reshape(scale, (1, 1, *scale.shape)))
    if form == FLOAT8:
        return to_bits(call.emitter, cast_narrow(call.add, numbers, NARROW[FLOAT8]), NARROW[FLOAT8], call.origin)
    numbers = call.add("round", numbers)
    if form == "i8":
        return call.cast(call.add("clip", numbers, lo=-128.0, hi=127.0), "i8")
    *rows, size = x.shape
    pairs = call.reshape(call.add("clip", numbers, lo=-8.0, hi=7.0), (*rows, size // 2, 2))
    first, second = (call.reshape(cut(call, pairs, {len(rows) + 1: (i, i + 1, 1)}), (*rows, size // 2)) for i in (0, 1))
    # In a byte a number is that plus 8.
    both = call.add("add", first, call.add("mul", second, constant(np.float32(16))))
    return call.cast(call.add("add", both, constant(np.float32(8 + 8 * 16))), "u8")


def key_numbers(call: OnnxCall, cache: Value, form: str) -> Value:
    """Return the numbers of a cache as f32 [batch, key heads, room, size], without their scales."""
    if form not in (UINT4, FLOAT8):
        return call.cast(cache, "f32")
    every = np.arange(256)
    if form == UINT4:
        table = (np.stack([every % 16, every // 16], axis=1) - 8).astype(np.float32)
    else:
        table = every.astype(np.uint8).view(NARROW[FLOAT8].dtype).astype(np.float32)
    found = call.add("gather", constant(table, stem=form), call.cast(cache, "i32"), axis=0)
    return call.reshape(found, (*cache.shape[:3], cache.shape[3] * (2 if form == UINT4 else 1)))


def stored_bits(cache: Value | None) -> Value | None:
    """Return a cache as it lies in memory: the bits of FLOAT8."""
    return cache if cache is None or cache.bits is None else cache.bits


def as_output(call: OnnxCall, cache: Value, form: str) -> Value:
    """Return a cache in memory as a tensor of the file's type."""
    if form != FLOAT8:
        return cache
    return replace(read_bits(call.emitter, cache, NARROW[FLOAT8], call.origin), bits=cache)
