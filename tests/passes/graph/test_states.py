"""--state: pairs of inputs and outputs by patterns, what is refused, and what is proposed."""

from dataclasses import replace

import pytest

from mavcg.errors import MavcgError
from mavcg.graph import Graph, GraphState
from mavcg.passes.graph.pipeline import optimise
from mavcg.passes.graph.states import pair_states, proposed_states

DECODER = Graph.parse("""graph decoder {
  input %x: f32[1,2]
  input %past.0.key: f32[1,2]
  input %past.0.value: f32[1,2]
  input %past.1.key: f32[1,2]
  input %past.1.value: f32[1,2]
  input %mask: f32[1,3]
  %present.0.key: f32[1,2] = add(%x, %past.0.key)
  %present.0.value: f32[1,2] = mul(%x, %past.0.value)
  %present.1.key: f32[1,2] = sub(%x, %past.1.key)
  %present.1.value: f32[1,2] = max(%x, %past.1.value)
  %y: f32[1,2] = add(%present.1.key, %present.1.value)
  %masked: f32[1,3] = relu(%mask)
  return %y, %present.0.key, %present.0.value, %present.1.key, %present.1.value, %masked
}
""")


def states(*patterns: str) -> dict[str, str]:
    return {state.input: state.output for state in pair_states(DECODER, patterns).states}


def test_each_star_stands_for_the_same_text_on_both_sides() -> None:
    everything = {f"past.{i}.{kind}": f"present.{i}.{kind}" for i in (0, 1) for kind in ("key", "value")}
    assert states("past.*.*=present.*.*") == states("past*=present*") == everything
    assert states("past.0.*=present.0.*") == {"past.0.key": "present.0.key", "past.0.value": "present.0.value"}
    assert states("past.1.key=present.1.key") == {"past.1.key": "present.1.key"}
    assert states("past.0.*=present.0.*", "past.1.*=present.1.*") == everything
    assert states() == {}


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        (["past"], r"--state past: write INPUT=OUTPUT, .* as in --state past_key=present_key"),
        (["past*=present"], "write INPUT=OUTPUT, with as many"),
        (["=y"], "write INPUT=OUTPUT"),
        (["memory*=present*"], r"--state memory\*=present\*: no input has such a name; inputs are x, past.0.key"),
        (["past.0.key=now"], "input past.0.key .* has no output now; outputs are y, present.0.key"),
        (["past.*.key=*.key"], "has no output 0.key"),
        (["mask=y"], r"input mask \(f32\[1,3\]\) and output y \(f32\[1,2\]\): a state has one type .* --shape"),
        (["past*=present*", "past.0.key=y"], "input past.0.key .* and output y: one of them is a state already"),
        (["x=present.0.key", "past*=present*"], "output present.0.key: one of them is a state already"),
    ],
)
def test_what_is_refused(patterns: list[str], message: str) -> None:
    with pytest.raises(MavcgError, match=message):
        pair_states(DECODER, patterns)


def test_an_output_stays_for_the_caller() -> None:
    graph = replace(DECODER, outputs=("present.0.key",))
    with pytest.raises(MavcgError, match="no output is left for the caller; leave one of present.0.key out"):
        pair_states(graph, ["past.0.key=present.0.key"])


def test_caches_with_the_usual_names_are_proposed() -> None:
    assert proposed_states(DECODER) == "past*=present*"
    assert states(proposed_states(DECODER)) == states("past.*=present.*")
    assert proposed_states(pair_states(DECODER, ["past*=present*"])) == ""
    renamed = str(DECODER).replace("%past.", "%past_key_values.")
    assert proposed_states(Graph.parse(renamed)) == "past_key_values.*=present.*"


def test_a_cache_that_grows_is_not_proposed() -> None:
    grown = str(DECODER).replace(
        "%present.0.key: f32[1,2] = add(%x, %past.0.key)", "%present.0.key: f32[2,2] = concat(%past.0.key, %x) axis=0"
    )
    assert proposed_states(Graph.parse(grown)) == ""
    assert proposed_states(replace(DECODER, outputs=("y",))) == ""


def test_passes_keep_states() -> None:
    """Also where a pass replaces the output's node."""
    graph = Graph.parse("""graph g {
      input %x: f32[1,2]
      input %h: f32[1,2]
      state %h = %next from {1.0, 2.0}
      %a: f32[1,2] = add(%x, %h)
      %next: f32[1,2] = reshape(%a) shape=[1, 2]
      %y: f32[1,2] = relu(%a)
      return %y, %next
    }
    """)
    optimised = optimise(graph)
    assert optimised.states == (GraphState("h", "next"),) and optimised.states[0].initial is graph.states[0].initial
    assert optimised.inputs == graph.inputs and optimised.outputs == graph.outputs
