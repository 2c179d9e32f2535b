"""Schedules of the user: phases and rings as the search's own, run token by token; every fault is named."""

import pytest

from mavcg.apps.application import Application, Cnn, DataEdge, Layer, firings, sequential
from mavcg.apps.buffers import total_size
from mavcg.apps.derivation import Derivation, all_by_parts, free_genes
from mavcg.apps.given_schedule import with_schedules
from mavcg.apps.models import cut_network
from mavcg.apps.plan import plan_application, plan_json
from mavcg.apps.schedule_notation import parse_schedule
from mavcg.apps.search import Constraints, GeneticLimits
from mavcg.apps.token_simulator import greedy_rings, simulate_schedule
from mavcg.apps.worked_example import CHROMOSOME, example_application
from mavcg.errors import MavcgError
from tests.mavcg.apps.random_applications import random_application

CNN = example_application().cnns[0]
PAPER = "{{l1}, {l2}, [{l3}, {l4}, {l5}] × 32}"


def given(text: str, cnn: Cnn = CNN) -> Application:
    return Application(
        (cnn,), tuple(with_schedules(cnn, [sequential(cnn)], [parse_schedule(text)], "app.toml: line 4"))
    )


def test_the_papers_schedule_takes_what_the_paper_says() -> None:
    """Table 6.3's buffers of CNN1 come out of schedule'_1 as well as of the chromosome."""
    app = given(PAPER)
    derived = Derivation(app).derive(frozenset())
    searched = Derivation(Application((CNN,), (sequential(CNN),))).derive(CHROMOSOME)

    assert derived.phases == searched.phases and derived.capacities == searched.capacities
    assert total_size(derived.buffers) == total_size(searched.buffers)
    assert simulate_schedule(derived, greedy_rings(derived)) == 2 * 3 * (2 + 3 * 32)


def test_a_plan_keeps_the_schedule() -> None:
    planned = plan_application(given(PAPER), {}, Constraints(None, {}), GeneticLimits(4, 1))
    document = plan_json(planned)

    assert free_genes(planned.app) == [] and all_by_parts(planned.app) == frozenset()
    assert document["schedules"] == {"CNN1": "l1, l2, [l3, l4, l5] x 32"}
    assert list(planned.front[0].derived.phases.values()) == [1, 1, 32, 32, 32]


def test_the_schedule_of_a_plan_can_be_given() -> None:
    """The printed schedule of a random application, given back, has the same rings."""
    for seed in range(20):
        app, genes = random_application(seed)
        derived = Derivation(app).derive(genes)
        parts = []
        for cnn in app.cnns:
            own = derived.app.partitions_of(cnn.name)
            texts = [", ".join(f"{{{layer}}}" for layer in firings(p.schedule)) for p in own]
            parts += with_schedules(cnn, app.partitions_of(cnn.name), [parse_schedule(t) for t in texts], "here")
        again = Derivation(Application(app.cnns, tuple(parts), app.parallel)).derive(frozenset())

        assert again.capacities == derived.capacities and again.data == derived.data


def test_inputs_run_first_where_they_are_left_out() -> None:
    cnn = Cnn("n", (Layer("input x", "input", 4), Layer("a", "conv", 4)), (DataEdge("input x", "a", 8, 4),))

    assert list(firings(given("[a] x 4", cnn).partitions[0].schedule)) == ["input x", "a", "a", "a", "a"]
    with pytest.raises(MavcgError, match="layer 'input x' runs 2 times; let it run once"):
        given("[{input x}] x 2, a", cnn)


@pytest.mark.parametrize(
    "text, words",
    [
        ("l1 l2 l3 l4 l6", "'l6' is not a layer of CNN1; did you mean l1, l2, l3"),
        ("l1 l2 l3 l5", "layer 'l4' of CNN1 is missing; add it"),
        ("l1 l2 l3 l4 [l5] x 3", "layer 'l5' runs 3 times; let it run once, or 32 times, by rows"),
        ("l2 l1 l3 l4 l5", "layer l2: phase 1 of 1 reads rows that l1 writes later; change the order"),
        ("l1 l2 [l4 l3 l5] x 32", "layer l4: phase 1 of 32 reads rows that l3 writes later"),
        ("l1 l2 l3 l4 l5 l5", "layer 'l5' runs 2 times"),
    ],
)
def test_faults_are_refused_with_their_line(text: str, words: str) -> None:
    with pytest.raises(MavcgError) as error:
        given(text)

    assert str(error.value).startswith("app.toml: line 4: ") and words in str(error.value)


def test_a_schedule_for_each_partition() -> None:
    parts = cut_network(CNN, [2])
    texts = [parse_schedule(text) for text in ("l1 l2", "[l3 l4 l5] x 32")]

    assert [len(list(firings(p.schedule))) for p in with_schedules(CNN, parts, texts, "here")] == [2, 96]
    with pytest.raises(MavcgError, match="here: 1 schedules for 2 partitions of CNN1; give one for each"):
        with_schedules(CNN, parts, texts[:1], "here")
    with pytest.raises(MavcgError, match="'l3' belongs to another partition than CNN1.0"):
        with_schedules(CNN, parts, [parse_schedule("l1 l2 l3"), texts[1]], "here")
