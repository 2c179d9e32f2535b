"""The arena of an application: it runs token by token, and takes no more than the shared buffers."""

import pytest

from mavcg.apps.application import Application, Cnn, DataEdge, Layer, sequential
from mavcg.apps.buffers import total_size
from mavcg.apps.derivation import Derivation
from mavcg.apps.joint_arena import plan_joint_arena
from mavcg.apps.running_together import networks_together
from mavcg.apps.token_simulator import simulate_schedule
from mavcg.apps.worked_example import CHROMOSOME, example_application
from tests.mavcg.apps.random_applications import random_application


def assert_random_arena_is_sound(seed: int) -> None:
    app, genes = random_application(seed)
    derived = Derivation(app).derive(genes)
    arena = plan_joint_arena(derived, 2000)

    assert arena.lower_bound <= arena.size <= total_size(derived.buffers)
    assert arena.size == max((ring.offset + ring.elements for ring in arena.rings.values()), default=0) or (
        arena.size == total_size(derived.buffers)
    )
    assert simulate_schedule(derived, arena.rings, seed) > 0


@pytest.mark.parametrize("seed", range(40))
def test_random_applications_in_an_arena(seed: int) -> None:
    assert_random_arena_is_sound(seed)


@pytest.mark.long
def test_two_thousand_random_applications_in_an_arena() -> None:
    for seed in range(3000, 5000):
        assert_random_arena_is_sound(seed)


def test_the_papers_example() -> None:
    """The last 10 and 256 elements share what is free: 24576 and 19456 are the largest sums of live data."""
    derivation = Derivation(example_application())
    sizes = [plan_joint_arena(derivation.derive(genes)) for genes in (frozenset[tuple[str, str]](), CHROMOSOME)]

    assert [(each.size, each.optimal) for each in sizes] == [(24576, True), (19456, True)]


def three_networks(*parallel: frozenset[str]) -> Application:
    """Networks of one edge each, of 50, 30 and 20 elements."""
    cnns = tuple(
        Cnn(name, (Layer("a"), Layer("b")), (DataEdge("a", "b", size),))
        for name, size in (("large", 50), ("middle", 30), ("small", 20))
    )
    return Application(cnns, tuple(sequential(cnn) for cnn in cnns), parallel)


@pytest.mark.parametrize(
    ("parallel", "size"),
    [
        ((), 50),
        ((frozenset(("large", "middle", "small")),), 100),
        ((frozenset(("large", "middle")), frozenset(("large", "small"))), 80),
        ((frozenset(("large", "small")), frozenset(("middle", "small"))), 70),
    ],
)
def test_networks_that_do_not_run_together_share_beside_one_that_runs_with_both(
    parallel: tuple[frozenset[str], ...], size: int
) -> None:
    derived = Derivation(three_networks(*parallel)).derive(frozenset())
    arena = plan_joint_arena(derived)

    assert (arena.size, arena.lower_bound) == (size, size)
    assert simulate_schedule(derived, arena.rings) > 0


def test_the_largest_sets_that_run_together() -> None:
    both = (frozenset(("large", "small")), frozenset(("middle", "small")))
    assert networks_together(three_networks()) == [("large",), ("middle",), ("small",)]
    assert sorted(networks_together(three_networks(*both))) == [("large", "small"), ("middle", "small")]
    assert networks_together(three_networks(*both, frozenset(("large", "middle")))) == [("large", "middle", "small")]
