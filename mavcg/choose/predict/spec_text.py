"""Read kernel specs from a library's note, so that their code can be generated again.

Today's notes use the format of specs/serialize.py. Older notes contain repr() texts with the names that classes and
fields had at that time; the tables below map these names to tags and positions.
"""

import ast
import re
from collections.abc import Sequence
from typing import Any

from mavcg.errors import MavcgError
from mavcg.kernels.registry import emitters
from mavcg.specs.kernel import KernelSpec
from mavcg.specs.serialize import class_of, from_json

# Names as they were in old notes: these lines stay as they are, whatever the classes are called now.
# Class -> its tag, and its fields in the order of their numbers.
_OLD_FIELDS = {
    "Conv2d": ("conv2d", "x out residual kernel stride dilation groups lanes bias packed act act_args"),
    "View": ("view", "dtype shape strides"),
    "Depthwise": ("depthwise", "x out residual kernel stride dilation bias act act_args"),
    "ConvTranspose2d": ("conv_transpose2d", "x out kernel stride dilation pads groups lanes bias packed act act_args"),
    "MatMul": ("matmul", "batch m k n a_strides b_strides out_strides residual_strides bias act act_args"),
    "PadBorder": ("pad_border", "out before after bits"),
    "PadMapped": ("pad_mapped", "x out before mode"),
    "PlainProduct": ("plain_product", "dtype outer inner bias residual act act_args"),
    "Outer": ("product_dimension", "length a w out bias residual"),
    "Pool": ("pool2d", "kind x out kernel stride dilation pads count_pads"),
    "QConv2d": ("q_conv2d", "x out kernel stride dilation groups lanes ending narrow in_i16"),
    "Ending": ("int8_epilogue", "zero lo hi to"),
    "QDepthwise": ("q_depthwise", "x out kernel stride dilation ending narrow"),
    "QMatMul": ("q_matmul", "batch m k n a_strides b_strides out_strides dtype x_zero ending"),
    "Reduce": ("reduce", "kind dtype kept reduced along"),
    "Nest": ("nest", "shape strides"),
    "ArgReduce": ("arg_reduce", "kind dtype kept length stride last"),
    "Softmax": ("softmax", "log outer axis line"),
    "CopySpec": ("copy", "item_bytes nest source_offset target_offset"),
    "RelaidSpec": ("copy_strided", "source target"),
    "ElementwiseSpec": ("elementwise", "op args dtypes nest"),
    "TransposeSpec": ("transpose", "item_bytes nest across"),
    "GatherSpec": ("gather", "item_bytes nest index_bytes length step"),
    "LookupSpec": ("lookup", "signed nest"),
    "ResampleSpec": ("resample", "nest taps length step plain"),
    "LayerNormSpec": ("layer_norm", "outer inner bias epsilon"),
    "LrnSpec": ("lrn", "outer channels size alpha beta bias"),
    "QMeanSpec": ("q_mean", "to kept reduced"),
    "Requantise": ("requantize", "dtype zero multiplier out_zero lo hi"),
    "QAvgPoolSpec": ("q_avg_pool2d", "to x out kernel stride dilation pads count_pads"),
    "Padded": ("padded_image", "image pad phases"),
    "Image": ("image", "channels height width layout block phases"),
    "RaggedBlocks": ("ragged_blocks", "source target"),
    "SumOfChannels": ("sum2d", "x out kernel stride dilation groups epilogue columns"),
    "Epilogue": ("epilogue", "bias residual act act_args"),
    "DirectConv": (
        "direct_conv2d",
        "x out kernel stride dilation groups epilogue order along held panel chunk rows_outer slack long_unroll",
    ),
    "DepthwiseChannels": ("depthwise_channels", "x out kernel stride dilation epilogue"),
    "PatchMatrix": ("im2_patches", "patches"),
    "Patches": ("patches", "scenario layout block columns pixels"),
    "Scenario": ("scenario", "c h w stride k m pad groups dilation"),
    "PatchProduct": ("im2_product", "patches out turned strips epilogue"),
    "TapProducts": ("kn2_products", "scenario x out accumulating epilogue"),
    "ShiftedSum": ("kn2_shifted_sum", "scenario partial out epilogue"),
    "ForwardRows": ("fft_forward", "transforms x"),
    "Transforms": ("fft_transforms", "scenario length"),
    "CoefficientProducts": ("fft_products", "transforms"),
    "InverseRows": ("fft_inverse", "transforms out epilogue"),
    "Winograd": ("winograd", "tiles x out residual block bias act act_args"),
    "Tiles": ("winograd_tiles", "m k two_d pad in_h in_w in_ch out_h out_w out_ch lanes"),
    "Located": ("located_view", "view block block_step"),
    "WinogradInput": ("winograd_input", "tiles x"),
    "WinogradProducts": ("winograd_products", "tiles chunk"),
    "WinogradOutput": ("winograd_output", "tiles out residual bias act act_args"),
}
# Enum -> its tag, and its members' names with their values.
_OLD_MEMBERS = {
    "Layout": ("layout", {"CHW": "CHW", "HCW": "HCW", "HWC": "HWC", "CHWC": "CHWc"}),
    "Order": ("term_order", {"TAPS": "taps", "CHANNELS": "channels", "BLOCKS": "blocks"}),
    "Along": ("vector_axis", {"CHANNELS": "channels", "COLUMNS": "columns"}),
    "Held": ("held_outputs", {"BOTH": "both", "ONE_SCALAR": "one scalar", "ONE_VECTOR": "one vector"}),
}
_OLD_NUMBERS = {"inf": float("inf"), "nan": float("nan")}
_OLD_MEMBER = re.compile(r"<(\w+)\.(\w+): [^<>]*>")  # of an enum, as repr() printed it


def read_spec(value: Any, location: str = "spec") -> KernelSpec:
    """Return the spec in a note's `value`, which is JSON of specs/serialize.py or an older note's repr() text.

    Nothing in it is executed: only types of specs and constants are accepted. Raises: MavcgError for anything else.
    """
    emitters()  # imports every family, so that its tags are known
    shown = str(value)[:60]
    try:
        spec = _parse(value) if isinstance(value, str) else from_json(value)
    except (SyntaxError, ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
        raise MavcgError(
            f"{location}: '{shown}' is not a kernel spec of this version of mavcg ({error}); build the library again"
        ) from error
    if not isinstance(spec, KernelSpec):
        raise MavcgError(f"{location}: '{shown}' is not a kernel spec; build the library again")
    return spec


def _parse(text: str) -> Any:
    return _value(ast.parse(_OLD_MEMBER.sub(r"\1.\2", text), mode="eval").body)


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Tuple(elts=items):
            return tuple(map(_value, items))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.Name(id=name):
            return _OLD_NUMBERS[name]
        case ast.Attribute(value=ast.Name(id=name), attr=member):
            tag, members = _OLD_MEMBERS[name]
            return class_of(tag)(members[member])
        case ast.Call(func=ast.Name(id=name), args=[], keywords=keywords):
            tag, names = _OLD_FIELDS[name]
            return class_of(tag)(*_by_position(keywords, names.split()))
    raise ValueError(f"{type(node).__name__} has no place in a spec")


def _by_position(keywords: Sequence[ast.keyword], names: Sequence[str]) -> list[Any]:
    """Return the values of keyword arguments in the order of `names`; fields at the end that are not named are left
    out."""
    values = {keyword.arg: _value(keyword.value) for keyword in keywords}
    unknown = [name for name in values if name not in names]
    if unknown or list(values) != list(names[: len(values)]):
        raise ValueError(f"fields {', '.join(map(str, values))}, not {', '.join(names)}")
    return list(values.values())
