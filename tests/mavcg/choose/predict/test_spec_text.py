"""Specs as notes have them, of today and of before, and values that are no specs."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mavcg.choose.predict.spec_text import read_spec
from mavcg.errors import MavcgError
from mavcg.kernels.attention.spec import Attention
from mavcg.kernels.block_weights.expand import ExpandedBlocks
from mavcg.kernels.block_weights.spec import BlockProduct, QuantizedBlocks
from mavcg.kernels.int8.integer_sums import IntegerConv2d, IntegerDepthwise
from mavcg.kernels.primitives.foreign_gemm import ForeignProduct
from mavcg.kernels.primitives.sparse.product import SparseProduct
from mavcg.kernels.registry import emitters
from mavcg.kernels.tensor.arg_top import ArgTop
from mavcg.kernels.tensor.cumulative import Cumulative
from mavcg.kernels.tensor.dynamic_range import DynamicRange, Extremes
from mavcg.kernels.tensor.run_indices import FlatIndexSpec, ScatterSpec
from mavcg.kernels.tensor.suppress_boxes import SuppressBoxes
from mavcg.kernels.tensor.tree_leaves import TreeLeaves
from mavcg.kernels.tensor.true_places import TruePlaces
from mavcg.specs.serialize import to_json

# By kernel: what repr() printed of specs of every family on 22 November 2026, before names could change.
OLD_REPRS = json.loads((Path(__file__).parents[2] / "specs/old_reprs.json").read_text())

# Families that are newer than the old notes.
NEWER = {
    ArgTop,
    Cumulative,
    SparseProduct,
    ForeignProduct,
    FlatIndexSpec,
    ScatterSpec,
    IntegerConv2d,
    IntegerDepthwise,
    DynamicRange,
    Extremes,
    BlockProduct,
    ExpandedBlocks,
    QuantizedBlocks,
    Attention,
    SuppressBoxes,
    TreeLeaves,
    TruePlaces,
}

# Fields that old notes do not have, with their defaults.
SINCE = re.compile(
    r", (sparsity=0|block_sparsity=0|across=None|batch=1(, dtype='f32')?|pad_across=None|"
    r"filter_rows=None(, dtype='f32')?|terms=[14]|"
    r"shift=False|stored=''|single=False|free_rows=False|reserved=0|per_index=0|words=\(\)|counts_rows=False|beyond=0|excess=0|"
    r"free=-1, longest=0, scaled=\(\)|dtype='f32', centred=True|"
    r"bounded=False(, residual=None, sum=None)?)(?=[,)])|, dtype='f32'(?=(, words=\(\))?\)$)"
)


def test_a_spec_comes_back_as_it_was(make: Any) -> None:
    spec = make.conv()

    assert read_spec(to_json(spec)) == spec and repr(read_spec(to_json(spec))) == repr(spec)


@pytest.mark.parametrize("kernel", OLD_REPRS)
def test_old_notes_are_read(kernel: str) -> None:
    text = OLD_REPRS[kernel]
    spec = read_spec(text)

    assert kernel.startswith(spec.family + "_") or "transpose" in kernel
    assert read_spec(to_json(spec)) == spec
    # The same numbers in the same order, whatever their names are.
    assert _constants(SINCE.sub("", repr(spec))) == _constants(text)


def _constants(text: str) -> list[str]:
    return [part.split("=")[-1].rsplit("(")[-1] for part in text.replace(")", "").split(",") if "<" not in part]


def test_old_notes_hold_all_families() -> None:
    assert {type(read_spec(text)) for text in OLD_REPRS.values()} == set(emitters()) - NEWER


@pytest.mark.parametrize(
    "value",
    [
        "",
        "1",
        "Conv2d(",
        "Conv2d()",
        "View(dtype='f32', shape=(1,), strides=(1,))",
        "__import__('os').system('true')",
        "open(file='x')",
        "Conv2d(x=1)",
        "[1]",
        "Softmax(1)",
        "a" * 10000,
        "(" * 200,
        "nonsense(x=1)",
        "inf",
        "Softmax(log=True, axis=(1, 1, 1), outer=1, line=1)",
        "Softmax(log=True, **{'x': 1})",
        None,
        1,
        [],
        {},
        {"view": ["f32", [1], [1]]},
        {"conv2d": []},
        {"conv2d": 1},
        {"nothing": []},
        {"float": "x"},
        {"layout": "HHH"},
        {"softmax": [1], "view": []},
        {"softmax": [1, 2, 3, 4, 5, 6, 7]},
        [{"view": []}],
    ],
)
def test_anything_else_is_refused_by_its_place(value: Any) -> None:
    with pytest.raises(MavcgError, match="lib.so: kernel k: .*build the library again"):
        read_spec(value, "lib.so: kernel k")


def test_numbers_that_python_prints_as_names() -> None:
    text = "Softmax(log=-inf, outer=-inf, axis=-inf, line=-inf)"

    assert {name for name, value in vars(read_spec(text)).items() if value == float("-inf")} == {
        "log",
        "outer",
        "axis",
        "line",
    }
