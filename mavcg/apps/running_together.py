"""Maximal sets of networks, and of partitions, that run at the same time."""

from collections.abc import Callable, Iterator, Sequence

from mavcg.apps.application import Application


def cliques_of(names: Sequence[str], linked: Callable[[str, str], bool]) -> list[tuple[str, ...]]:
    """Return the maximal sets of names that are pairwise linked, in order (Bron and Kerbosch, 1973)."""

    def extend(
        chosen: tuple[str, ...], candidates: Sequence[str], excluded: Sequence[str]
    ) -> Iterator[tuple[str, ...]]:
        if not candidates and not excluded:
            yield chosen
        for number, name in enumerate(candidates):
            later = [*candidates[:number], *excluded]
            yield from extend(
                (*chosen, name),
                [candidate for candidate in candidates[number + 1 :] if linked(name, candidate)],
                [candidate for candidate in later if linked(name, candidate)],
            )

    return list(extend((), list(names), ()))


def partition_cliques(app: Application, names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the maximal sets of these partitions that run at the same time."""
    return cliques_of(names, app.runs_with)


def networks_together(app: Application) -> list[tuple[str, ...]]:
    """Return the maximal sets of CNNs that run at the same time; a CNN may be in several."""
    pairs = {
        (p.cnn, q.cnn)
        for p in app.partitions
        for q in app.partitions
        if p.cnn != q.cnn and app.runs_with(p.name, q.name)
    }
    return cliques_of([cnn.name for cnn in app.cnns], lambda a, b: (a, b) in pairs)
