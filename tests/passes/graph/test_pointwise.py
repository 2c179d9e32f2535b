"""Activations recognised and fused, residual additions taken in."""

import re
from typing import Any

import pytest

from mavcg.passes.graph.activations import recognise_activations
from mavcg.passes.graph.pointwise import fuse_pointwise
from mavcg.passes.graph.prune import prune

# What a file may spell out -> what it is; x and y are there, k is a scalar with the number behind it.
FORMS = {
    "%s = sigmoid(%x); %y = mul(%s, %x)": "silu",
    "%s = softplus(%x); %t = tanh(%s); %y = mul(%x, %t)": "mish",
    "%s = hard_sigmoid(%x) alpha=0.16666667 beta=0.5; %y = mul(%x, %s)": "hard_swish",
    "%s = add(k3, %x); %c = clip(%s) lo=0.0 hi=6.0; %d = div(%c, k6); %y = mul(%x, %d)": "hard_swish",
    "%s = add(%x, k3); %c = clip(%s) lo=0.0 hi=6.0; %d = mul(%c, k0.1666667); %y = mul(%d, %x)": "hard_swish",
    "%s = add(%x, k3); %r = relu(%s); %c = min(%r, k6); %m = mul(%x, %c); %y = div(%m, k6)": "hard_swish",
    "%s = add(%x, k3); %c = clip(%s) lo=0.0 hi=6.0; %y = div(%c, k6)": "hard_sigmoid",
    "%d = mul(%x, k0.70710678); %e = erf(%d); %a = add(k1, %e); %h = mul(%x, k0.5); %y = mul(%h, %a)": "gelu",
    "%d = div(%x, k1.4142135); %e = erf(%d); %a = add(k1, %e); %h = mul(%a, k0.5); %y = mul(%x, %h)": "gelu",
    "%q = pow(%x, k3); %r = mul(%q, k0.044715); %s = add(%x, %r); %t = mul(%s, k0.79788456); %u = tanh(%t);"
    "%a = add(%u, k1); %h = mul(%x, k0.5); %y = mul(%h, %a)": "gelu",
    "%q = mul(%x, %x); %r = mul(%q, %x); %v = mul(%r, k0.044715); %s = add(%x, %v); %t = mul(%s, k0.79788456);"
    "%u = tanh(%t); %a = add(%u, k1); %h = mul(%x, %a); %y = mul(%h, k0.5)": "gelu",
    "%m = mul(%x, k0.1); %y = max(%m, %x)": "leaky_relu",
    "%y = prelu(%x, k0.25)": "leaky_relu",
    "%y = max(%x, k0)": "relu",
    "%y = clip(%x) lo=0.0": "relu",
    "%a = relu(%x); %y = relu(%a)": "relu",
    "%a = max(%x, k-1); %y = min(%a, k1)": "clip",
    "%a = clip(%x) lo=-2.0 hi=6.0; %y = relu(%a)": "clip",
    "%a = relu(%x); %y = clip(%a) lo=-1.0 hi=6.0": "clip",
    "%a = clip(%x) lo=3.0 hi=6.0; %y = clip(%a) lo=-1.0 hi=2.0": "clip",
    "%a = clip(%x) lo=-6.0 hi=-3.0; %y = relu(%a)": "clip",
    "%y = pow(%x, k2)": "mul",
    "%y = div(%x, k4)": "mul",
}
OTHERS = [  # near misses
    "%s = sigmoid(%x); %t = relu(%x); %y = mul(%s, %t)",
    "%s = hard_sigmoid(%x) alpha=0.2 beta=0.5; %y = mul(%x, %s)",
    "%s = add(%x, k2.5); %c = clip(%s) lo=0.0 hi=6.0; %m = mul(%x, %c); %y = div(%m, k6)",
    "%s = add(%x, k3); %c = clip(%s) lo=0.0 hi=6.0; %m = mul(%x, %c); %y = div(%m, k5)",
    "%d = mul(%x, k0.7); %e = erf(%d); %a = add(k1, %e); %h = mul(%x, k0.5); %y = mul(%h, %a)",
    "%m = mul(%x, k1.5); %y = max(%m, %x)",
    "%y = div(%x, k3)",
    "%y = pow(%x, k2.5)",
    "%y = div(k4, %x)",
]


def text_of(form: str) -> str:
    numbers = dict.fromkeys(re.findall(r"\bk(-?[\d.]+)", form))
    names = {number: f"k{i}" for i, number in enumerate(numbers)}
    constants = [f"const %{name}: f32[] = {{{float(number)}}}" for number, name in names.items()]
    body = re.sub(r"\bk(-?[\d.]+)", lambda m: f"%{names[m[1]]}", form)
    return "\n".join(["input %x: f32[3,40]", *constants, *body.split(";"), "return %y"])


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_an_activation_is_recognised(form: str, h: Any) -> None:
    graph = h.graph(text_of(form))
    after = prune(recognise_activations(graph))
    assert [node.op for node in after.nodes] == [FORMS[form]]
    h.same(graph, after, relative=3e-6)


@pytest.mark.parametrize("form", OTHERS)
def test_near_misses_stay(form: str, h: Any) -> None:
    graph = h.graph(text_of(form))
    assert str(recognise_activations(graph)) == str(graph)


def test_a_hard_swish_before_a_dynamic_quantization_keeps_its_roundings(h: Any) -> None:
    """Only operator for operator: other forms have other roundings, which no operator of the graph has."""
    forms = {
        "%s = add(%x, k3); %c = clip(%s) lo=0.0 hi=6.0; %m = mul(%x, %c); %a = div(%m, k6)": "hard_swish_quotient",
        "%s = add(%x, k3); %c = clip(%s) lo=0.0 hi=6.0; %d = div(%c, k6); %a = mul(%x, %d)": "hard_swish",
    }
    for form, op in forms.items():
        graph = h.graph(text_of(f"{form}; %y = dynamic_range(%a)"))
        after = prune(recognise_activations(graph))
        assert [node.op for node in after.nodes] == [op, "dynamic_range"]
        h.same(graph, after, relative=3e-6)


@pytest.mark.parametrize(
    ("form", "ops"),
    [
        ("%s = sigmoid(%x); %a = mul(%x, %s)", ["sigmoid_quotient", "mul"]),
        ("%a = tanh(%x)", ["tanh_quotient"]),
        ("%a = pow(%x, k3)", ["mul", "mul"]),
    ],
)
def test_before_a_dynamic_quantization_bits_are_onnxruntimes(form: str, ops: list[str], h: Any) -> None:
    graph = h.graph(text_of(f"{form}; %y = dynamic_range(%a)"))
    after = prune(recognise_activations(graph))
    assert [node.op for node in after.nodes] == [*ops, "dynamic_range"]
    h.same(graph, after, relative=3e-6)


CONV = """input %x: f32[1,2,2,2]
        const %w: f32[2,1,1,2] = {1.0, -2.0, 3.0, 4.0}
        const %v: f32[2,1,1,2] = {4.0, -2.0, 3.0, 4.0}
        %a = conv2d(%x, %w)
        BODY
        return %y"""


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("%y = leaky_relu(%a) alpha=0.25", ["conv2d"]),
        ("%b = conv2d(%x, %v); %s = add(%a, %b); %y = relu(%s)", ["conv2d", "conv2d"]),
        ("%s = add(%a, %a); %y = relu(%s)", ["conv2d", "add", "relu"]),  # nothing to add before it is there
        ("%r = relu(%a); %y = add(%r, %x)", ["conv2d", "add"]),  # the activation comes first
        ("%s = add(%a, %x); %t = add(%s, %x); %y = relu(%t)", ["conv2d", "add", "relu"]),  # one residual
        ("%r = relu(%a); %y = add(%r, %a)", ["conv2d", "relu", "add"]),  # read twice
        ("%r = relu(%a); %y = sigmoid(%r)", ["conv2d", "sigmoid"]),
        ("%s = sub(%a, %x); %y = relu(%s)", ["conv2d", "sub", "relu"]),
    ],
)
def test_fusion(body: str, wanted: list[str], h: Any) -> None:
    graph = h.graph(CONV.replace("BODY", body.replace(";", "\n")))
    after = fuse_pointwise(graph)
    assert [node.op for node in after.nodes] == wanted
    h.same(graph, after, relative=1e-6)


def test_the_later_of_two_convolutions_takes_the_other_in(h: Any) -> None:
    graph = h.graph(CONV.replace("BODY", "%b = conv2d(%x, %v)\n%y = add(%b, %a)"))
    first, second = fuse_pointwise(graph).nodes
    assert (first.output, second.inputs) == ("a", ("x", "v", "", "a"))
