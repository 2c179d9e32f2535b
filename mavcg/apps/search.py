"""Algorithm 9: a multi-objective genetic search for the layers that process data by parts (section 6.5.2).

NSGA-II (Deb et al., 2002) with the paper's operators: two-parent crossover and mutation of a single gene (section 2.6).
It is implemented here because it takes a page, and libraries with it bring a dozen dependencies.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mavcg.apps.derivation import Chromosome, LayerId

Fitness = tuple[float, ...]  # memory, then minus the throughput of each CNN: all to be minimised


@dataclass(frozen=True)
class GeneticLimits:
    """Parameters of the search, which the paper leaves to the user (GA_par). population: chromosomes per generation."""

    population: int = 24
    generations: int = 12
    seed: int = 0


@dataclass(frozen=True)
class Individual:
    """A chromosome with its fitness."""

    chromosome: Chromosome
    fitness: Fitness


def dominates(a: Fitness, b: Fitness) -> bool:
    """True if a is not worse than b in any objective and better in one."""
    return all(x <= y for x, y in zip(a, b, strict=True)) and a != b


def pareto_front(individuals: Sequence[Individual]) -> list[Individual]:
    """Return the individuals that no other dominates, one for each fitness, by increasing memory."""
    by_fitness: dict[Fitness, Individual] = {}
    for individual in individuals:
        by_fitness.setdefault(individual.fitness, individual)
    front = [
        individual for fitness, individual in by_fitness.items() if not any(dominates(o, fitness) for o in by_fitness)
    ]
    return sorted(front, key=lambda individual: individual.fitness)


def search_chromosomes(
    genes: Sequence[LayerId],
    fitness: Callable[[Chromosome], Fitness],
    limits: GeneticLimits = GeneticLimits(),
    progress: Callable[[str], None] = lambda message: None,
) -> list[Individual]:
    """Return the Pareto front of all chromosomes evaluated.

    genes: layers that can process data by parts. The first generation has the two extremes, prefixes of the layers
    (because
    data is largest near the input), and random ones. The same seed gives the same front.
    """
    generator, known = random.Random(limits.seed), dict[Chromosome, Individual]()

    def evaluate(chromosome: Chromosome) -> Individual:
        if chromosome not in known:
            known[chromosome] = Individual(chromosome, fitness(chromosome))
        return known[chromosome]

    population = [evaluate(chromosome) for chromosome in _first_generation(genes, limits.population, generator)]
    for generation in range(limits.generations if genes else 0):
        children = [
            evaluate(_mutate(_cross(*_parents(population, generator), genes, generator), genes, generator))
            for _ in range(limits.population)
        ]
        population = _survivors([*population, *children], limits.population)
        progress(f"generation {generation + 1} of {limits.generations}: {len(known)} chromosomes")
    return pareto_front(list(known.values()))


def _first_generation(genes: Sequence[LayerId], count: int, generator: random.Random) -> list[Chromosome]:
    chromosomes = [frozenset[LayerId](), frozenset(genes)]
    chromosomes += [frozenset(genes[: max(1, len(genes) * k // (count // 2))]) for k in range(1, count // 2)]
    while len(chromosomes) < count:
        share = generator.random()
        chromosomes.append(frozenset(gene for gene in genes if generator.random() < share))
    return chromosomes[:count]


def _parents(population: Sequence[Individual], generator: random.Random) -> tuple[Chromosome, Chromosome]:
    """Return the winners of two tournaments of two; the population is sorted, best first."""
    first, second = (min(generator.randrange(len(population)) for _ in range(2)) for _ in range(2))
    return population[first].chromosome, population[second].chromosome


def _cross(a: Chromosome, b: Chromosome, genes: Sequence[LayerId], generator: random.Random) -> Chromosome:
    """Return the child of two parents, crossed over at one random point."""
    point = generator.randint(0, len(genes))
    return (a & frozenset(genes[:point])) | (b & frozenset(genes[point:]))


def _mutate(chromosome: Chromosome, genes: Sequence[LayerId], generator: random.Random) -> Chromosome:
    """Return the chromosome with one random gene flipped."""
    return chromosome ^ {generator.choice(genes)}


def _survivors(individuals: Sequence[Individual], count: int) -> list[Individual]:
    """Return the best individuals by rank of non-domination, then by crowding distance."""
    remaining, survivors = (
        list({individual.chromosome: individual for individual in individuals}.values()),
        list[Individual](),
    )
    while remaining and len(survivors) < count:
        front = [a for a in remaining if not any(dominates(b.fitness, a.fitness) for b in remaining)]
        distance = _crowding(front)
        survivors += sorted(front, key=lambda a: (-distance[a.chromosome], sorted(a.chromosome)))
        remaining = [a for a in remaining if a not in front]
    return survivors[:count]


def _crowding(front: Sequence[Individual]) -> dict[Chromosome, float]:
    """Return the crowding distance of each individual: the sum over objectives of its neighbours' distance."""
    distance = {individual.chromosome: 0.0 for individual in front}
    for k in range(len(front[0].fitness)):
        ordered = sorted(front, key=lambda individual: individual.fitness[k])
        extent = ordered[-1].fitness[k] - ordered[0].fitness[k]
        distance[ordered[0].chromosome] = distance[ordered[-1].chromosome] = float("inf")
        for before, individual, after in zip(ordered, ordered[1:], ordered[2:], strict=False):
            if extent:
                distance[individual.chromosome] += (after.fitness[k] - before.fitness[k]) / extent
    return distance


@dataclass(frozen=True)
class Constraints:
    """Constraints of a plan.

    memory: bytes of weights and buffers (M^c). throughput: frames per second, by CNN (T^c).
    """

    memory: float | None
    throughput: Mapping[str, float]


def choose_solution(
    memory: Sequence[float], throughput: Sequence[Mapping[str, float]], constraints: Constraints
) -> tuple[int, bool]:
    """Return the index of the chosen solution, and True if it meets all constraints (lines 9 to 16).

    The solution with the least memory among those that meet all constraints is chosen, and among equals the one with
    the highest throughput. If no solution meets them, the one with the least memory is chosen.
    """
    order = sorted(range(len(memory)), key=lambda n: (memory[n], -sum(throughput[n].values())))
    feasible = [
        n
        for n in order
        if (constraints.memory is None or memory[n] <= constraints.memory)
        and all(throughput[n][name] >= least for name, least in constraints.throughput.items())
    ]
    return (feasible[0], True) if feasible else (order[0], False)
