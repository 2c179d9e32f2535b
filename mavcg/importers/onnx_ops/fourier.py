"""Handlers of DFT and STFT, as products with the matrix of the transform.

A transform of n numbers takes n multiply-adds for each result, where a fast one takes some log2 n; frames of audio have
some hundred numbers, and all frames are one product.
"""

from collections.abc import Mapping

import numpy as np

from mavcg.graph import DTYPES, Array
from mavcg.importers.call import known_at_build
from mavcg.importers.indices import gather_along
from mavcg.importers.movement import cut
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results, round_once
from mavcg.importers.onnx_proto import dtype_of
from mavcg.importers.value import Value, constant


@known_at_build("dft_length", "axis")
@round_once
def dft(call: OnnxCall) -> Results:
    """Import DFT of real or complex numbers along an axis, forward or inverse, whole or one-sided.

    One-sided and inverse, the input is the half of the spectrum of real numbers, which are the result.
    """
    x = call.input(0, rank_min=2)
    if call.version >= 20:
        given = call.maybe_ints(2, "axis") or (-2,)
    else:
        given = (call.attr_int("axis", 1),)
    if len(given) != 1:
        raise call.fail("its input axis is not one number")
    axis = call.axis(given[0], x.rank)
    if axis == x.rank - 1:
        raise call.fail(f"axis {given[0]}: the last dimension holds real and imaginary parts")
    inverse, onesided = call.attr_bool("inverse"), call.attr_bool("onesided")
    default = 2 * (x.shape[axis] - 1) if inverse and onesided else x.shape[axis]
    lengths = call.maybe_ints(1, "dft_length") or (default,)
    if len(lengths) != 1 or lengths[0] < 1:
        raise call.fail(f"dft_length {list(lengths)}; one number from 1 on is needed")
    order = [*(a for a in range(x.rank) if a not in (axis, x.rank - 1)), axis, x.rank - 1]
    made = _transform(call, call.transpose(x, order), lengths[0], inverse, onesided)
    return call.transpose(made, [order.index(a) for a in range(x.rank)])


@known_at_build("frame_step", "frame_length")
@round_once
def stft(call: OnnxCall) -> Results:
    """Import STFT: the transform of each frame of a signal, times a window."""
    x, steps, window = call.input(0, rank=3), call.ints(1, "frame_step"), call.maybe(2)
    lengths = call.maybe_ints(3, "frame_length")
    if lengths is None:
        if window is None:
            raise call.fail("neither a window nor frame_length")
        lengths = window.shape
    if len(steps) != 1 or steps[0] < 1 or len(lengths) != 1 or not 1 <= lengths[0] <= x.shape[1]:
        raise call.fail(f"frames of {list(lengths)} every {list(steps)} of {x.shape[1]} numbers")
    step, length = steps[0], lengths[0]
    if window is not None and window.shape != (length,):
        raise call.fail(f"a window {window.type} for frames of {length}")
    count = (x.shape[1] - length) // step + 1
    call.count_size(count * length, 8)
    frames = gather_along(call, x, constant(np.arange(count)[:, None] * step + np.arange(length)), 1)
    if window is not None:
        frames = call.add("mul", frames, call.reshape(call.cast(window, x.dtype), (length, 1)))
    return _transform(call, frames, length, False, call.attr_bool("onesided", True))


def _transform(call: OnnxCall, x: Value, length: int, inverse: bool, onesided: bool) -> Value:
    """Return the transform along the last but one axis of x, [.., n, 1 or 2], of `length` numbers.

    More numbers than that are left out, fewer are followed by zeros.
    """
    count, parts = x.shape[-2:]
    if parts not in (1, 2):
        raise call.fail(f"{x.type}: the last dimension holds 1 (real) or 2 (complex) numbers")
    half = length // 2 + 1
    used = min(count, half if inverse and onesided else length)
    if inverse and onesided:
        matrix = _inverse_half(length, used)
    else:
        results = half if onesided else length
        call.count_size(used * parts * results * 2, 8)
        matrix = _matrix(length, used, results, inverse)
    matrix = matrix[:, :parts]
    results, made_parts = matrix.shape[2:]
    x = cut(call, x, {x.rank - 2: (0, used, 1)})
    rows = call.reshape(x, (*x.shape[:-2], used * parts))
    weights = constant(matrix.reshape(used * parts, results * made_parts).astype(DTYPES[x.dtype]))
    made = call.add("matmul", rows, weights)
    return call.reshape(made, (*x.shape[:-2], results, made_parts))


def _matrix(length: int, used: int, results: int, inverse: bool) -> Array:
    """Return what each part of each number adds to each part of each result: [used, 2, results, 2]."""
    turns = np.outer(np.arange(used), np.arange(results)) % length / length
    angle = 2 * np.pi * turns * (1 if inverse else -1)
    cosine, sine = np.cos(angle), np.sin(angle)
    matrix = np.stack([np.stack([cosine, sine], -1), np.stack([-sine, cosine], -1)], 1)
    return matrix / length if inverse else matrix


def _inverse_half(length: int, used: int) -> Array:
    """Return _matrix for real results from half of a spectrum: [used, 2, length, 1]."""
    whole = _matrix(length, used, length, True)[..., :1]
    mirrored = np.array([2.0 if 0 < n and 2 * n != length else 1.0 for n in range(used)])
    return np.asarray(whole * mirrored[:, None, None, None])


@known_at_build("num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz", result=True)
def mel_weight_matrix(call: OnnxCall) -> Results:
    """Import MelWeightMatrix: triangles over the bins of a spectrum, [dft_length / 2 + 1, num_mel_bins].

    Source: the operator's page. Their corners are equally far apart in mel, 2595 log10(1 + hertz / 700), and rounded
    down to bins.
    """
    names = ("num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz")
    given = [call.array(i, name) for i, name in enumerate(names)]
    if any(array.size != 1 for array in given):
        raise call.fail("an input is not one number")
    bands, length, rate = (int(array.reshape(())) for array in given[:3])
    edges = [float(array.reshape(())) for array in given[3:]]
    if not (bands >= 1 and length >= 1 and rate >= 1 and 0 <= edges[0] < edges[1] <= rate / 2):
        raise call.fail(f"{bands} bands from {edges[0]} to {edges[1]} Hz of {length} numbers at {rate} Hz")
    dtype = dtype_of(call.attr_int("output_datatype", 1), call.location)
    bins = length // 2 + 1
    call.count_size(bins * bands, DTYPES[dtype].itemsize)
    low, high = (2595 * np.log10(1 + edge / 700) for edge in edges)
    mels = low + np.arange(bands + 2) * ((high - low) / (bands + 2))
    corners = np.floor((length + 1) * 700 * (10 ** (mels / 2595) - 1) / rate).astype(np.int64)
    at, (lower, centre, upper) = np.arange(bins)[:, None], (corners[:-2], corners[1:-1], corners[2:])
    rise, fall = np.maximum(centre - lower, 1), np.maximum(upper - centre, 1)
    weights = np.where((at >= lower) & (at < centre), (at - lower) / rise, 0.0)
    weights = np.where((at >= centre) & (at < upper), (upper - at) / fall, weights)
    weights = np.where(at == centre, 1.0, weights)  # also of a triangle without a rising or a falling side
    return constant(weights, dtype)


HANDLERS: Mapping[str, Handler] = {"DFT": dft, "STFT": stft, "MelWeightMatrix": mel_weight_matrix}
