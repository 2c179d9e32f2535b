"""Generate the instructions of one node for a region and a range of channels of its result."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mavcg.accelerators.codegen.code import CodeState
from mavcg.accelerators.codegen.parameters import WeightSlice, is_depthwise
from mavcg.accelerators.codegen.regions import ChipTile, Region, needed_region
from mavcg.accelerators.fixed_point import added_zero, bounds, reciprocal, slope_of
from mavcg.accelerators.isa.forms import ELTWISE
from mavcg.accelerators.windows import window_counts
from mavcg.accelerators.xgraph import CONVOLUTIONS, XNode

_MODES = {"conv": "dense", "dense": "dense", "deconv": "transposed", "depthwise": "dense"}


def limits(node: XNode) -> dict[str, int]:
    """Return the instruction fields for activation, zero point and saturation."""
    low, high = bounds(node)
    slope = slope_of(node)
    return {"lo": low, "hi": high, "leaky": int(slope is not None), "slope": slope or 0, "zero": added_zero(node)}


def _window(node: XNode, out: Region, tile: ChipTile) -> dict[str, int]:
    kernel, stride, dilation = node.kernel, node.stride, node.dilation
    top, left = node.pads[0] + tile.region.top, node.pads[1] + tile.region.left
    if node.kind == "deconv":
        pad_top = out.top + node.pads[0] - tile.region.top * stride[0]
        pad_left = out.left + node.pads[1] - tile.region.left * stride[1]
    elif node.kind == "dense":
        stride, dilation, pad_top, pad_left = (1, 1), (1, 1), 0, 0
    else:
        pad_top, pad_left = top - out.top * stride[0], left - out.left * stride[1]
    return {
        "kernel_rows": kernel[0],
        "kernel_columns": kernel[1],
        "stride_rows": stride[0],
        "stride_columns": stride[1],
        "dilation_rows": dilation[0],
        "dilation_columns": dilation[1],
        "pad_top": pad_top,
        "pad_left": pad_left,
        "rows": tile.region.rows,
        "columns": tile.region.columns,
        "out_rows": out.rows,
        "out_columns": out.columns,
    }


@dataclass(frozen=True)
class ConvolutionStep:
    """A convolution of some input channels to some output channels of a region.

    part: the channels. source, target: tiles of input and result. out: region of the result. parameters: address of the
    slice of weights. sums: address of the 32-bit sums, if input channels are divided. accumulate: True to start from
    these sums. partial: True to leave sums instead of the int8 result.
    """

    part: WeightSlice
    source: ChipTile
    target: ChipTile
    out: Region
    parameters: int
    sums: int
    accumulate: bool
    partial: bool


def emit_convolution(code: CodeState, node: XNode, step: ConvolutionStep) -> None:
    """Emit a convolution for a part of its channels."""
    word, in_ch = code.path.word, code.by_name[node.inputs[0]].channels
    part, first = step.part, step.part.first
    mode = "depthwise" if is_depthwise(node, in_ch) else _MODES[node.kind]
    values = {
        **step.source.operand("from", word, channel=part.in_first),
        **_window(node, step.out, step.source),
        "channels": part.in_end - part.in_first,
        **step.target.operand("to", word, step.out, first),
        "out_channels": part.end - first,
        "parameters": step.parameters,
        **limits(node),
        "accumulate": int(step.accumulate),
        "partial": int(step.partial),
        "sums": step.sums,
        "outside": code.by_name[node.inputs[0]].zero,
    }
    code.emit(f"conv.{mode}", values, None if step.partial else code.origin(node, step.out, first))


def emit_channelwise(
    code: CodeState, node: XNode, sources: Sequence[ChipTile], target: ChipTile, out: Region, first: int, count: int
) -> None:
    """Emit a pool, an element-wise operation or an upsampling of `count` channels, from `first` on."""
    if node.kind in ("max_pool", "avg_pool"):
        _emit_pool(code, node, sources[0], target, out, first, count)
    elif node.kind == "eltwise":
        _emit_eltwise(code, node, sources, target, out, first, count)
    elif node.kind == "upsample":
        word, source = code.path.word, code.by_name[node.inputs[0]]
        needed = needed_region(node, out, source)
        values = {
            **sources[0].operand("from", word, needed, first),
            **target.operand("to", word, out, first),
            "out_rows": out.rows,
            "out_columns": out.columns,
            "channels": count,
            "factor_rows": node.factor[0],
            "factor_columns": node.factor[1],
            "phase_row": out.top - needed.top * node.factor[0],
            "phase_column": out.left - needed.left * node.factor[1],
            "shift": _shift(code, node),
            **limits(node),
        }
        code.emit("misc.upsample", values, code.origin(node, out, first))
    else:
        raise AssertionError(f"{node.kind} is not computed channel by channel")


def _shift(code: CodeState, node: XNode) -> int:
    source = code.by_name[node.inputs[0]]
    assert source.radix is not None and node.radix is not None
    return source.radix - node.radix


def _emit_pool(
    code: CodeState, node: XNode, source: ChipTile, target: ChipTile, out: Region, first: int, count: int
) -> None:
    word, shift = code.path.word, _shift(code, node)
    for part, divisor in _same_divisor(code, node, out) if node.kind == "avg_pool" else ((out, 1),):
        values = {
            **source.operand("from", word, channel=first),
            **target.operand("to", word, part, first),
            "channels": count,
            **_window(node, part, source),
            "shift": shift,
            **limits(node),
        }
        if node.kind == "avg_pool":
            values["multiplier"], bits = reciprocal(divisor, node.ratio)
            values["from_zero"] = code.by_name[node.inputs[0]].zero
            values["shift"] = shift + bits
        mode = "average" if node.kind == "avg_pool" else "max"
        code.emit(f"pool.{mode}", values, code.origin(node, part, first))


def _same_divisor(code: CodeState, node: XNode, out: Region) -> Iterator[tuple[Region, int]]:
    """Yield the parts of a region in which an average has one divisor, since an instruction has one multiplier."""
    counts = window_counts(node, code.by_name[node.inputs[0]].shape)[out.top : out.bottom, out.left : out.right]
    for top, bottom in _runs([tuple(row) for row in counts]):
        for left, right in _runs(list(counts[top])):
            region = Region(out.top + top, out.top + bottom, out.left + left, out.left + right, out.image)
            yield region, int(np.asarray(counts)[top, left])


def _runs(values: Sequence[object]) -> Iterator[tuple[int, int]]:
    first = 0
    for index in range(1, len(values) + 1):
        if index == len(values) or values[index] != values[first]:
            yield first, index
            first = index


def _emit_eltwise(
    code: CodeState, node: XNode, sources: Sequence[ChipTile], target: ChipTile, out: Region, first: int, count: int
) -> None:
    word = code.path.word
    operands = [code.by_name[name] for name in node.inputs]
    radices = [operand.radix or 0 for operand in operands]
    total = node.weight_radix[0] if node.weight_radix else sum(radices) if node.op == "mul" else max(radices)
    left = [0 if node.op in ("mul", "copy") else total - radix for radix in radices]
    if node.multipliers:
        left = [0] * len(radices)
    second = sources[-1]
    values = {
        **sources[0].operand("from", word, out, first),
        **second.operand("second", word, out, first),
        **target.operand("to", word, out, first),
        "rows": out.rows,
        "columns": out.columns,
        "channels": count,
        "op": ELTWISE.index(node.op),
        "left": left[0],
        "second_left": left[-1],
        "shift": total - (node.radix or 0),
        **limits(node),
        **_operand_scales([operand.zero for operand in operands], node.multipliers or (0,)),
    }
    code.emit("misc.eltwise", values, code.origin(node, out, first))


def _operand_scales(zeros: Sequence[int], multipliers: Sequence[int]) -> dict[str, int]:
    """Return the fields of the operands' zero points and multipliers; those of the last are also the second's."""
    return {
        "from_zero": zeros[0],
        "second_zero": zeros[-1],
        "multiplier": multipliers[0],
        "second_multiplier": multipliers[-1],
    }


def emit_copy(
    code: CodeState, joined: XNode, source: ChipTile, target: ChipTile, out: Region, radix: int, channel: int
) -> None:
    """Emit the copy of a concat's input into the joined tensor. radix: radix position of the input.

    channel: first channel of the input in the joined tensor.
    """
    word = code.path.word
    values = {
        **source.operand("from", word, out),
        **source.operand("second", word, out),
        **target.operand("to", word, out),
        "rows": out.rows,
        "columns": out.columns,
        "channels": source.channels,
        "op": ELTWISE.index("copy"),
        "left": 0,
        "second_left": 0,
        "shift": radix - (joined.radix or 0),
        **limits(joined),
        **_operand_scales((0,), (0,)),
    }
    code.emit("misc.eltwise", values, code.origin(joined, out, channel))


def emit_reorganise(code: CodeState, node: XNode, source: ChipTile, target: ChipTile, out: Region) -> None:
    """Emit the space-to-depth move of a region, with all channels."""
    word, given = code.path.word, code.by_name[node.inputs[0]]
    needed = needed_region(node, out, given)
    values = {
        **source.operand("from", word, needed),
        **target.operand("to", word, out),
        "out_rows": out.rows,
        "out_columns": out.columns,
        "channels": given.channels,
        "factor_rows": node.factor[0],
        "factor_columns": node.factor[1],
        "shift": _shift(code, node),
        **limits(node),
    }
    code.emit("misc.reorganise", values, code.origin(node, out, 0))


def is_channelwise(node: XNode, in_ch: int) -> bool:
    """Return True if each channel of the result depends only on the input channel of the same index."""
    if node.kind in CONVOLUTIONS:
        return is_depthwise(node, in_ch)
    return node.kind in ("max_pool", "avg_pool", "eltwise", "upsample")
