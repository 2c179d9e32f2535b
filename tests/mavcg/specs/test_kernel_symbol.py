"""Symbols of kernels: every family's follow the grammar and say what the kernel computes."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import examples

pytest.importorskip("onnx")

from mavcg.choose.lowering.kernel_code import version_symbol  # noqa: E402
from mavcg.errors import MavcgError  # noqa: E402
from mavcg.graph.layout import dense_strides
from mavcg.kernels.builder.emit import kernel_name  # noqa: E402
from mavcg.kernels.conv.spec import Conv2d  # noqa: E402
from mavcg.kernels.primitives.registry import all_primitives  # noqa: E402
from mavcg.kernels.registry import emitters  # noqa: E402
from mavcg.specs.kernel import KernelSpec, View  # noqa: E402
from mavcg.specs.kernel_symbol import KernelSymbol, parse_kernel_symbol, symbol_text, window_text  # noqa: E402
from tests.mavcg.specs.real_specs import (  # noqa: E402
    GRAPHS,
    specs_of_conversion,
    specs_of_eight_bits,
    specs_of_foreign,
    specs_of_primitive,
    specs_of_random_graph,
)


def assert_symbol(spec: KernelSpec) -> KernelSymbol:
    """A kernel's name is an identifier of C and follows the grammar, alone and as a version of it."""
    name = kernel_name(spec)
    assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
    parsed = parse_kernel_symbol(name)
    assert parsed.version == "" and set(parsed.op.split("_")) <= set(spec.family.split("_"))
    for label in ("generic", "cortex-a55", "kryo-4xx-gold", "znver4"):
        version = parse_kernel_symbol(version_symbol(name, label))
        assert version.version == label and version.digest == parsed.digest and version.op == parsed.op
    return parsed


def test_every_family_has_a_symbol_of_the_grammar() -> None:
    specs = [spec for number in range(GRAPHS) for spec in specs_of_random_graph(number, 16)]
    specs += [spec for number in range(len(all_primitives())) for spec in specs_of_primitive(number, number)]
    specs += [spec for number in range(8) for spec in (*specs_of_eight_bits(number), *specs_of_conversion(number))]
    specs += specs_of_foreign()
    for spec in specs:
        symbol = assert_symbol(spec)
        assert symbol.sizes, f"{kernel_name(spec)} says no size"
    assert {type(spec) for spec in specs} == set(emitters())
    assert len({kernel_name(spec) for spec in specs}) == len(set(specs))


@settings(max_examples=examples(50, 6))
@given(st.integers(0, len(all_primitives()) - 1), st.integers(0, 10**6))
def test_symbols_of_primitives(number: int, seed: int) -> None:
    for spec in specs_of_primitive(number, seed):
        assert_symbol(spec)


def view(*shape: int) -> View:
    return View("f32", shape, dense_strides(shape))


def test_a_convolution_is_described() -> None:
    spec = Conv2d(view(1, 26, 26, 32), view(1, 12, 24, 64), None, (3, 3), (2, 1), (1, 1), 2, 16, True, True, "relu", ())
    name = kernel_name(spec)
    digest = name[-8:]
    assert name == f"conv2d_f32_nhwc_1x12x24x64_3x3x16s2x1g2_{digest}"
    assert parse_kernel_symbol(f"{name}.cortex-a76") == KernelSymbol(
        "conv2d", "f32", ("nhwc",), (1, 12, 24, 64), "", "3x3x16s2x1g2", digest, "cortex-a76"
    )
    assert window_text((3, 5), (1, 1), (2, 3)) == "3x5s1d2x3"


@pytest.mark.parametrize(
    ("family", "text"),
    [
        ("conv2d_f32", "conv2d_f32_1x2_01234567"),
        ("conv2d_f32_unpacked", "conv2d_unpacked_f32_1x2_01234567"),
        ("winograd_2d_f4_k3", "winograd_2d_f4_k3_f32_1x2_01234567"),
        ("copy_16", "copy_x16_1x2_01234567"),
        ("cast_bool", "cast_bool_1x2_01234567"),
    ],
)
def test_the_type_follows_the_operation(family: str, text: str) -> None:
    assert symbol_text(family, "1x2", "01234567") == text
    assert parse_kernel_symbol(text).sizes == (1, 2) and parse_kernel_symbol(text).digest == "01234567"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "conv2d",
        "conv2d_f32",
        "conv2d_f32_3x3s1",
        "conv2d_f32_nhwc_1x2_3x3s1_0123456",
        "_f32_01234567",
        "conv2d_f32_nhwc_1x2_3x3s1_0123456G",
        "conv2d_f32_nhwc_1x2_3x3s1_01234567.",
        "Conv2d_f32_01234567",
        "conv2d_f24_01234567",
        "conv2d_f32_3x3s1_1x2_01234567",
        "conv2d_f32_01234567\n",
        "conv2d_f32_01234567.a b",
        "conv2d_f32_nhwc_nhwc_nhwc_01234567",
    ],
)
def test_other_names_are_refused(text: str) -> None:
    with pytest.raises(MavcgError, match="is not a kernel's symbol"):
        parse_kernel_symbol(text)
