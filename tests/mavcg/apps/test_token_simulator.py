"""Random applications run token by token in their shared buffers; faults in buffers and schedules are found."""

import pytest

from mavcg.apps.application import Application, Cnn, DataEdge, Layer, Partition, in_order, sequential
from mavcg.apps.buffers import EdgeData, edge_data, live_together, naive_buffers, reuse_buffers, total_size
from mavcg.apps.derivation import Derivation
from mavcg.apps.token_simulator import Ring, ScheduleFault, greedy_rings, simulate_schedule
from tests.mavcg.apps.random_applications import random_application


def assert_random_schedule_is_sound(seed: int) -> None:
    app, genes = random_application(seed)
    derived = Derivation(app).derive(genes)

    assert simulate_schedule(derived, greedy_rings(derived), seed) > 0
    assert total_size(derived.buffers) <= total_size(naive_buffers(derived.data))
    assert total_size(naive_buffers(derived.data)) <= total_size(naive_buffers(edge_data(app)))


# 1340: a layer writes rows that its reader skips after that reader's last phase.
@pytest.mark.parametrize("seed", [*range(60), 1340])
def test_schedules_of_random_applications_are_sound(seed: int) -> None:
    assert_random_schedule_is_sound(seed)


@pytest.mark.long
def test_two_thousand_random_applications() -> None:
    for seed in range(1000, 3000):
        assert_random_schedule_is_sound(seed)


def two_partitions(parallel: bool) -> Application:
    """A chain of four layers, cut in the middle; the edge over the cut is the largest."""
    cnn = Cnn(
        "n",
        tuple(Layer(f"l{i}", "conv", 4) for i in range(4)),
        (DataEdge("l0", "l1", 8, 4), DataEdge("l1", "l2", 16, 4), DataEdge("l2", "l3", 8, 4)),
    )
    parts = tuple(
        Partition(f"p{i}", "n", names, in_order(names)) for i, names in enumerate((("l0", "l1"), ("l2", "l3")))
    )
    return Application((cnn,), parts, (frozenset(("p0", "p1")),) if parallel else ())


def test_partitions_that_follow_each_other_keep_what_lives_across_them() -> None:
    """The paper's rule lets them share, as they are not in J; l1 -> l2 is live in both."""
    app = two_partitions(parallel=False)
    derived = Derivation(app).derive(frozenset())
    first, across, last = derived.data[0], derived.data[1], derived.data[2]

    assert [span.partition for span in across.spans] == ["p0", "p1"]
    assert all(across not in buffer.edges or len(buffer.edges) == 1 for buffer in derived.buffers)
    assert simulate_schedule(derived, greedy_rings(derived))
    with pytest.raises(ScheduleFault, match="l1->l2 was overwritten"):
        simulate_schedule(derived, {first: Ring(0, 8), across: Ring(8, 16), last: Ring(8, 8)})


def test_edges_between_parallel_partitions_have_a_copy_in_each() -> None:
    data = edge_data(two_partitions(parallel=True))

    assert [each.label for each in data] == ["n:l0->l1", "n:l1->l2(1)", "n:l1->l2(2)", "n:l2->l3"]
    assert [each.home for each in data] == ["p0", "p0", "p1", "p1"]


def test_the_greedy_result_depends_on_the_order_of_edges() -> None:
    """10 and 7 elements, then 9 and 8 that are live at other times: first come, first served."""
    cnns = tuple(
        Cnn(f"n{i}", tuple(Layer(f"l{k}") for k in range(3)), (DataEdge("l0", "l1", a), DataEdge("l1", "l2", b)))
        for i, (a, b) in enumerate(((3, 10), (10, 3)))
    )
    partitions = tuple(sequential(cnn) for cnn in cnns)
    app = Application(cnns, partitions)
    data = edge_data(app)
    sizes = {
        total_size(reuse_buffers(app, order)) for order in (data, data[::-1], (data[0], data[2], data[1], data[3]))
    }

    assert len(sizes) > 1 and min(sizes) == 13


def test_a_ring_that_is_a_row_too_small_fails() -> None:
    app, genes = random_application(7)
    failures = 0
    for seed in range(40):
        app, genes = random_application(seed)
        derived = Derivation(app).derive(genes)
        rings = greedy_rings(derived)
        for data in derived.data:
            row = data.edge.elements // data.edge.rows
            if data.size == row or data.copy:
                continue
            with pytest.raises(ScheduleFault):
                simulate_schedule(derived, rings | {data: Ring(rings[data].offset, data.size - row)}, seed)
            failures += 1
    assert failures > 20


def literal_algorithm_8(app: Application, data: tuple[EdgeData, ...], within_cnn: bool) -> list[tuple[int, list[str]]]:
    """Every edge against every edge of every buffer, as section 6.5.1 has it."""
    buffers: list[list[EdgeData]] = []
    for each in data:
        sizes = [max(e.size for e in buffer) for buffer in buffers]
        suits = [
            (max(each.size - sizes[number], 0), number)
            for number, buffer in enumerate(buffers)
            if not any(live_together(app, each, other) for other in buffer)
            and (not within_cnn or buffer[0].cnn == each.cnn)
        ]
        if suits:
            buffers[min(suits)[1]].append(each)
        else:
            buffers.append([each])
    return [(max(e.size for e in buffer), [e.label for e in buffer]) for buffer in buffers]


@pytest.mark.parametrize("seed", range(100, 140))
def test_reuse_is_algorithm_8_to_the_letter(seed: int) -> None:
    app, genes = random_application(seed)
    derived = Derivation(app).derive(genes)

    for within_cnn in (False, True):
        buffers = reuse_buffers(derived.app, derived.data, within_cnn)
        assert [(b.size, [e.label for e in b.edges]) for b in buffers] == literal_algorithm_8(
            derived.app, derived.data, within_cnn
        )
