"""Specs through their text, and texts that are none."""

from typing import Any

import pytest

from mavcg.errors import MavcgError
from mavcg.kernels.softmax import Softmax
from mavcg.predict.spec_text import spec_from_text


def test_a_spec_comes_back_as_it_was(make: Any) -> None:
    spec = make.conv()

    assert spec_from_text(repr(spec)) == spec and repr(spec_from_text(repr(spec))) == repr(spec)


@pytest.mark.parametrize(
    "text",
    [
        "", "1", "Conv2d(", "Conv2d()", "View(dtype='f32', shape=(1,), strides=(1,))",
        "__import__('os').system('true')",
        "open(file='x')", "Conv2d(x=1)", "[1]", "Softmax(1)", "a" * 10000, "(" * 200, "nonsense(x=1)", "inf",
    ],
)  # fmt: skip
def test_anything_else_is_refused_by_its_place(text: str) -> None:
    with pytest.raises(MavcgError, match="lib.so: kernel k: .*build the library again"):
        spec_from_text(text, "lib.so: kernel k")


def test_numbers_that_python_prints_as_names() -> None:
    fields = {name: 1 for name in Softmax.__dataclass_fields__}
    text = ", ".join(f"{name}=-inf" for name in fields)

    assert all(value == float("-inf") for value in vars(spec_from_text(f"Softmax({text})")).values())
