"""Algorithm 9: a multi-objective genetic search for the layers that process data by parts (section 6.5.2).

NSGA-II (Deb et al., 2002) with the paper's operators: two-parent crossover and mutation of a single gene (section 2.6).
It is written here, as it takes a page and the libraries that have it bring a dozen packages along.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mavcg.apps.derivation import Chromosome, LayerId

Fitness = tuple[float, ...]  # memory, then minus the throughput of each CNN: all to be minimised


@dataclass(frozen=True)
class GeneticLimits:
    """population: chromosomes of a generation. The paper leaves these to the user (GA_par)."""

    population: int = 24
    generations: int = 12
    seed: int = 0


@dataclass(frozen=True)
class Individual:
    """A chromosome with its fitness."""

    chromosome: Chromosome
    fitness: Fitness


def dominates(a: Fitness, b: Fitness) -> bool:
    """True if a is nowhere worse than b and somewhere better."""
    return all(x <= y for x, y in zip(a, b, strict=True)) and a != b


def pareto_front(individuals: Sequence[Individual]) -> list[Individual]:
    """Return those that none dominates, one for each fitness, by increasing memory."""
    by_fitness: dict[Fitness, Individual] = {}
    for one in individuals:
        by_fitness.setdefault(one.fitness, one)
    kept = [one for one in by_fitness.values() if not any(dominates(o, one.fitness) for o in by_fitness)]
    return sorted(kept, key=lambda one: one.fitness)


def search_chromosomes(
    genes: Sequence[LayerId],
    fitness: Callable[[Chromosome], Fitness],
    limits: GeneticLimits = GeneticLimits(),
    progress: Callable[[str], None] = lambda message: None,
) -> list[Individual]:
    """Return the Pareto front of all chromosomes that were evaluated.

    genes: layers that can process data by parts. The first generation has the two extremes, prefixes of the layers, as
    data is largest near the input, and random ones. The same seed gives the same front.
    """
    generator, known = random.Random(limits.seed), dict[Chromosome, Individual]()

    def evaluate(chromosome: Chromosome) -> Individual:
        if chromosome not in known:
            known[chromosome] = Individual(chromosome, fitness(chromosome))
        return known[chromosome]

    population = [evaluate(each) for each in _first_generation(genes, limits.population, generator)]
    for generation in range(limits.generations if genes else 0):
        children = [
            evaluate(_mutate(_cross(*_parents(population, generator), genes, generator), genes, generator))
            for _ in range(limits.population)
        ]
        population = _survivors([*population, *children], limits.population)
        progress(f"generation {generation + 1} of {limits.generations}: {len(known)} chromosomes")
    return pareto_front(list(known.values()))


def _first_generation(genes: Sequence[LayerId], count: int, generator: random.Random) -> list[Chromosome]:
    found = [frozenset[LayerId](), frozenset(genes)]
    found += [frozenset(genes[: max(1, len(genes) * k // (count // 2))]) for k in range(1, count // 2)]
    while len(found) < count:
        share = generator.random()
        found.append(frozenset(gene for gene in genes if generator.random() < share))
    return found[:count]


def _parents(population: Sequence[Individual], generator: random.Random) -> tuple[Chromosome, Chromosome]:
    """Return two winners of tournaments between two: population is sorted, best first."""
    first, second = (min(generator.randrange(len(population)) for _ in range(2)) for _ in range(2))
    return population[first].chromosome, population[second].chromosome


def _cross(a: Chromosome, b: Chromosome, genes: Sequence[LayerId], generator: random.Random) -> Chromosome:
    """Two-parent crossover at one point."""
    point = generator.randint(0, len(genes))
    return (a & frozenset(genes[:point])) | (b & frozenset(genes[point:]))


def _mutate(chromosome: Chromosome, genes: Sequence[LayerId], generator: random.Random) -> Chromosome:
    """Flip a single gene."""
    return chromosome ^ {generator.choice(genes)}


def _survivors(individuals: Sequence[Individual], count: int) -> list[Individual]:
    """Return the best by rank of non-domination, then by crowding distance."""
    left, kept = list({one.chromosome: one for one in individuals}.values()), list[Individual]()
    while left and len(kept) < count:
        front = [one for one in left if not any(dominates(o.fitness, one.fitness) for o in left)]
        distance = _crowding(front)
        kept += sorted(front, key=lambda one: (-distance[one.chromosome], sorted(one.chromosome)))
        left = [one for one in left if one not in front]
    return kept[:count]


def _crowding(front: Sequence[Individual]) -> dict[Chromosome, float]:
    found = {one.chromosome: 0.0 for one in front}
    for k in range(len(front[0].fitness)):
        ordered = sorted(front, key=lambda one: one.fitness[k])
        extent = ordered[-1].fitness[k] - ordered[0].fitness[k]
        found[ordered[0].chromosome] = found[ordered[-1].chromosome] = float("inf")
        for before, one, after in zip(ordered, ordered[1:], ordered[2:], strict=False):
            if extent:
                found[one.chromosome] += (after.fitness[k] - before.fitness[k]) / extent
    return found


@dataclass(frozen=True)
class Constraints:
    """memory: bytes of weights and buffers (M^c); throughput: frames per second, by CNN (T^c)."""

    memory: float | None
    throughput: Mapping[str, float]


def choose_solution(
    memory: Sequence[float], throughput: Sequence[Mapping[str, float]], constraints: Constraints
) -> tuple[int, bool]:
    """Return the number of the chosen solution, and whether it meets all constraints (lines 9 to 16).

    Of those that meet all constraints the one with the least memory, of equal ones the fastest; else the least
    memory of all.
    """
    order = sorted(range(len(memory)), key=lambda n: (memory[n], -sum(throughput[n].values())))
    good = [
        n
        for n in order
        if (constraints.memory is None or memory[n] <= constraints.memory)
        and all(throughput[n][name] >= least for name, least in constraints.throughput.items())
    ]
    return (good[0], True) if good else (order[0], False)
