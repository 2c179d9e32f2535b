"""Bounds and sums of numbers that a run brings: bounds hold for every run, and equal sums are found."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.graph import DTYPES, TensorType
from mavcg.graph.reference import run
from mavcg.importers.emitter import Emitter, finish_graph
from mavcg.importers.run_bounds import bounds_of
from mavcg.importers.run_numbers import numbers_of
from mavcg.importers.value import Value, constant
from tests.conftest import examples

PAIRS = ("add", "sub", "mul", "min", "max", "div", "mod")


def emitted(draw: Any, dtype: str) -> tuple[Emitter, Value]:
    """A tree of random operators on two inputs of three whole numbers, of which one is bounded."""
    emitter = Emitter("g")
    kind = TensorType(dtype, (3,))
    values = [Value(kind, emitter.builder.input(name, kind)) for name in ("a", "b")]
    values.append(emitter.add("clip", [values[0]], "n", lo=-3.0, hi=5.0))

    def number(least: int = -6) -> Value:
        return constant(np.array(draw(st.integers(least, 6))), dtype)

    for _ in range(draw(st.integers(1, 7))):
        op = draw(st.sampled_from((*PAIRS, "neg", "abs", "where", "slice", "gather", "concat", "cast")))
        x = draw(st.sampled_from(values))
        if op in ("div", "mod"):
            made = emitter.add(op, [x, number(1)], "n")
        elif op in PAIRS:
            made = emitter.add(op, [x, draw(st.sampled_from([*values, number()]))], "n")
        elif op == "where":
            flags = emitter.add("less", [x, number()], "n")
            made = emitter.add(op, [flags, draw(st.sampled_from(values)), draw(st.sampled_from(values))], "n")
        elif op == "slice":
            part = emitter.add(op, [x], "n", starts=(2,), stops=(-1,), steps=(-1,))
            made = emitter.add("concat", [part], "n", axis=0)
        elif op == "concat":
            column = emitter.add("slice", [x], "n", starts=(1,), stops=(2,), steps=(1,))
            made = emitter.add(op, [column, constant(np.array([4, -4]), dtype)], "n", axis=0)
        elif op == "gather":
            made = emitter.add(op, [x, constant(np.array([1, 1, 0]))], "n", axis=0)
        elif op == "cast":
            made = emitter.add(op, [emitter.add(op, [x], "n", to="f32")], "n", to=dtype)
        else:
            made = emitter.add(op, [x], "n")
        values.append(made)
    return emitter, values[-1]


@given(st.data(), st.sampled_from(["i32", "i64", "i8"]))
@settings(max_examples=examples(400, 15))
def test_bounds_hold_in_every_run(data: Any, dtype: str) -> None:
    emitter, value = emitted(data.draw, dtype)
    least, most = bounds_of(emitter, value)
    graph = finish_graph(emitter, ["a", "b"], ["y"], [value])
    info = np.iinfo(DTYPES[dtype])
    for seed in range(4):
        draw = np.random.default_rng(seed)
        span = (-4, 9) if seed else (info.min, info.max)
        with np.errstate(all="ignore"):
            (made,) = run(graph, *(draw.integers(*span, 3, DTYPES[dtype]) for _ in graph.inputs))
        assert (made >= least).all() and (made <= most).all()


@given(st.data())
@settings(max_examples=examples(400, 15))
def test_sums_are_what_a_run_computes(data: Any) -> None:
    emitter, value = emitted(data.draw, "i64")
    numbers = numbers_of(emitter, value)
    names = sorted({name for number in numbers for name, _ in number.factors})
    roots = [Value(emitter.builder.types[name], name) for name in names]
    copies = [emitter.add("reshape", [root], "r", shape=root.shape) for root in roots]
    graph = finish_graph(emitter, ["a", "b"], ["y", *(f"r{i}" for i in range(len(roots)))], [value, *copies])
    arrays = {name: np.random.default_rng(1).integers(-50, 50, 3) for name in graph.inputs}
    made, *computed = run(graph, *arrays.values())
    elements = dict(zip(names, computed, strict=True))
    for have, number in zip(made, numbers, strict=True):
        assert have == number.offset + sum(f * elements[name].reshape(-1)[i] for (name, i), f in number.factors.items())


def test_a_chain_of_additions_that_share_a_number_is_looked_through_once() -> None:
    emitter = Emitter("g")
    kind = TensorType("i64", ())
    value = Value(kind, emitter.builder.input("x", kind))
    value = emitter.add("clip", [value], "n", lo=0.0, hi=1.0)
    first = value.name
    for _ in range(30):
        value = emitter.add("add", [value, value], "n")
    assert numbers_of(emitter, value)[0].factors == {(first, 0): 1 << 30}
    assert bounds_of(emitter, value) == (0, 1 << 30)
