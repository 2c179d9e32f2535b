"""Specs through their serialisation: of all families, as lowering gives them."""

import json
import math
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("onnx")

from mavcg.choose.predict.spec_text import read_spec  # noqa: E402
from mavcg.errors import MavcgError  # noqa: E402
from mavcg.kernels.builder.emit import kernel_name  # noqa: E402
from mavcg.kernels.primitives.registry import all_primitives  # noqa: E402
from mavcg.kernels.registry import emitters  # noqa: E402
from mavcg.specs import serialize  # noqa: E402
from mavcg.specs.kernel import KernelSpec  # noqa: E402
from mavcg.specs.serialize import FORMAT, check_format, from_json, spec_format, tagged_classes, to_json, to_text  # noqa: E402
from tests.conftest import examples  # noqa: E402
from tests.mavcg.specs.real_specs import (  # noqa: E402
    GRAPHS,
    specs_of_conversion,
    specs_of_eight_bits,
    specs_of_foreign,
    specs_of_primitive,
    specs_of_random_graph,
)

SPECS = st.one_of(
    st.builds(specs_of_random_graph, st.integers(0, 10**6), st.sampled_from((8, 16))),
    st.builds(specs_of_primitive, st.integers(0, len(all_primitives()) - 1), st.integers(0, 10**6)),
    st.builds(specs_of_conversion, st.integers(0, 10**6)),
    st.builds(specs_of_eight_bits, st.integers(0, 10**6)),
)


def assert_read_back(spec: KernelSpec) -> None:
    """The text gives the spec again, to the type and the sign of every number, and so its name."""
    again = read_spec(json.loads(to_text(spec)))
    assert again == spec and type(again) is type(spec)
    assert repr(again) == repr(spec) and kernel_name(again) == kernel_name(spec)


@settings(max_examples=examples(1000, 8))
@given(SPECS)
def test_specs_are_read_back(specs: tuple[KernelSpec, ...]) -> None:
    for spec in specs:
        assert_read_back(spec)


def test_specs_of_every_family_are_read_back() -> None:
    specs = [spec for number in range(GRAPHS) for spec in specs_of_random_graph(number, 16)]
    specs += [spec for number in range(len(all_primitives())) for spec in specs_of_primitive(number, number)]
    specs += [spec for number in range(8) for spec in (*specs_of_eight_bits(number), *specs_of_conversion(number))]
    specs += specs_of_foreign()
    for spec in specs:
        assert_read_back(spec)
    assert {type(spec) for spec in specs} == set(emitters())
    assert len({to_text(spec) for spec in specs}) == len({repr(spec) for spec in specs})


def test_every_family_has_a_tag() -> None:
    assert set(emitters()) <= set(tagged_classes().values())


def test_tags_and_the_numbers_of_fields_never_change() -> None:
    """tags.txt has each tag with the fields in the order of their numbers, or the values of an enum.

    A line may be added; a field may be renamed, or added at the end with a default. Nothing else may change: libraries
    that were built before could no longer be read. Another meaning needs another tag.
    """
    emitters()
    listed = dict(line.split(": ", 1) for line in (Path(__file__).parent / "tags.txt").read_text().splitlines())
    assert {tag: _members(kind) for tag, kind in tagged_classes().items() if kind is not _Tested} == listed


def _members(kind: type) -> str:
    if is_dataclass(kind):
        return " ".join(field.name for field in fields(kind))
    assert issubclass(kind, Enum)
    return " | ".join(member.value for member in kind)


@spec_format("tested")
@dataclass(frozen=True)
class _Tested:
    items: tuple[Any, ...]
    late: float = 1.0
    later: int = 0


def test_the_format() -> None:
    assert to_text(_Tested((1, -0.0, True, None, "é", ()))) == r'{"tested":[[1,-0.0,true,null,"\u00e9",[]]]}'
    assert to_json(_Tested((), 2.0)) == {"tested": [[], 2.0]}
    assert to_json(_Tested((), 1.0, 3)) == {"tested": [[], 1.0, 3]}
    assert to_json(_Tested((), 1)) == {"tested": [[], 1]}  # not the default: a whole number
    assert to_json(math.inf) == {"float": "inf"} and to_json(-math.inf) == {"float": "-inf"}
    assert math.isnan(from_json(to_json(math.nan)))
    again = from_json(json.loads(to_text(_Tested((-0.0, 1e300, 1e-45, (2, 2.0))))))
    assert repr(again) == repr(_Tested((-0.0, 1e300, 1e-45, (2, 2.0))))


@pytest.mark.parametrize("value", [[1], {1}, object(), 1 + 2j, b"x"])
def test_other_types_have_no_form(value: object) -> None:
    with pytest.raises(TypeError, match="no tag"):
        to_json(_Tested((value,)))


def test_notes_of_another_format_are_refused() -> None:
    check_format(FORMAT, "lib.so")
    with pytest.raises(MavcgError, match="lib.so: its specs are in format 2"):
        check_format(2, "lib.so")


def test_a_tag_is_of_one_class_whose_module_may_be_loaded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for registry in ("_CLASSES", "_TAGS"):
        monkeypatch.setattr(serialize, registry, {})
    made = {"__module__": "mavcg.a.module", "__qualname__": "Tagged"}
    spec_format("tagged-in-a-test")(type("Tagged", (), made))
    again = spec_format("tagged-in-a-test")(type("Tagged", (), made))
    assert tagged_classes()["tagged-in-a-test"] is again

    with pytest.raises(AssertionError, match="two classes with the tag 'tagged-in-a-test'"):
        spec_format("tagged-in-a-test")(type("Other", (), made | {"__qualname__": "Other"}))
