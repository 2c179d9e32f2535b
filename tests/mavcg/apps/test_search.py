"""The genetic search: the same front for a seed, the true front of small problems, the paper's choice."""

from itertools import combinations

from mavcg.apps.buffers import total_size
from mavcg.apps.derivation import Chromosome, Derivation
from mavcg.apps.search import Constraints, GeneticLimits, Individual, choose_solution, pareto_front, search_chromosomes
from mavcg.apps.worked_example import example_application

APP = example_application()
GENES = tuple(("CNN1", f"l{i}") for i in range(1, 6))


def fitness(chromosome: Chromosome) -> tuple[float, ...]:
    derived = Derivation(APP).derive(chromosome)
    return (total_size(derived.buffers), float(sum(derived.phases.values())))


def test_the_true_front_of_the_example() -> None:
    everything = [
        Individual(frozenset(genes), fitness(frozenset(genes)))
        for count in range(6)
        for genes in combinations(GENES, count)
    ]
    front = search_chromosomes(GENES, fitness, GeneticLimits(12, 10))

    assert [one.fitness for one in front] == [one.fitness for one in pareto_front(everything)]


def test_a_seed_gives_the_same_front() -> None:
    limits = GeneticLimits(6, 3, seed=5)

    assert search_chromosomes(GENES, fitness, limits) == search_chromosomes(GENES, fitness, limits)


def test_nothing_to_choose_from() -> None:
    assert [one.chromosome for one in search_chromosomes((), lambda c: (1.0, 2.0))] == [frozenset()]


def test_the_choice() -> None:
    memory, fps = (30.0, 20.0, 10.0), ({"a": 9.0}, {"a": 6.0}, {"a": 3.0})

    assert choose_solution(memory, fps, Constraints(25, {"a": 5.0})) == (1, True)
    assert choose_solution(memory, fps, Constraints(None, {})) == (2, True)
    assert choose_solution(memory, fps, Constraints(5, {"a": 5.0})) == (2, False)
    assert choose_solution(memory, fps, Constraints(None, {"a": 10.0})) == (2, False)
