"""Clusters as machines: what the facts make of them, what is assumed and reported, and how cores share."""

from dataclasses import replace
from math import prod

import pytest

from mavcg.accelerators.plans.machines import core_accelerator
from mavcg.cost.board_model import TYPICAL_CORES, board_model, core_model, core_models, cores_of
from mavcg.errors import MavcgError
from mavcg.hardware.board import Board, Cluster
from mavcg.hardware.core_model import AssumedFact, CoreModel
from mavcg.profiles.load import cores_for, load_boards
from mavcg.toolchain.target import parse_target

BIG = Cluster("cortex-a76", (2, 3), 2400000, 65536, 524288, 1, 40.0, 20.0, 12.0)
LITTLE = Cluster("cortex-a55", (0, 1), 1800000, 32768, 262144, 2, 14.0, 7.0, 5.0)
BOARD = Board("mine", "My SoC", "aarch64-linux-gnu.2.17", (LITTLE, BIG), (), 4 << 20, 15.0)


def levels(machine: CoreModel) -> list[tuple[str, int, float]]:
    return [(level.name, level.shared_bytes, level.bandwidth_gb_per_s) for level in machine.levels]


def test_facts_make_the_machine() -> None:
    little, big = core_models(BOARD)

    assert little.assumed == big.assumed == ()
    assert (big.label, big.number, big.ghz) == ("cortex-a76", 1, 2.4)
    # Two 128-bit pipes of an A76 and the one that an A55's two 64-bit pipes make: profiles/cores.
    assert (big.lanes, big.macs_per_cycle, little.macs_per_cycle) == (4, 8, 4)
    assert levels(big) == [("L1", 65536, 40.0), ("L2", 524288, 20.0), ("L3", 4 << 20, 12.0)]
    assert big.core is not None and big.core.name == "cortex-a76"


def test_cores_share_caches_and_bandwidth() -> None:
    pair = core_model(BOARD, 0, cores=2)

    assert pair.cores == 2
    assert levels(pair) == [("L1", 32768, 14.0), ("L2", 131072, 7.0), ("L3", 2 << 20, 5.0)]
    everyone = core_model(BOARD, 1, cores=2, elsewhere=2)
    assert levels(everyone) == [("L1", 65536, 40.0), ("L2", 524288, 20.0), ("L3", 1 << 20, 15.0 / 4)]


def test_level_that_is_no_larger_than_the_nearer_one_is_left_out() -> None:
    small = replace(BOARD, l3_bytes=1 << 20)
    assert levels(core_model(small, 1, cores=2)) == [("L1", 65536, 40.0), ("L2", 524288, 7.5)]


def test_behind_level_1_of_a_core_without_level_2_is_level_3() -> None:
    bare = replace(LITTLE, l2_bytes=0, l2_cores=None, l2_gb_per_s=None)
    machine = core_model(replace(BOARD, clusters=(bare, BIG)), 0, cores=2)
    assert levels(machine) == [("L1", 32768, 7.0), ("L3", 2 << 20, 5.0)]
    assert machine.missing == ()  # nothing is assumed of a level 2 that is not there
    alone = Board("x", "", BOARD.target, (bare,))
    assert [name for name, _, _ in levels(core_model(alone, 0))] == ["L1"]


def test_cluster_s_own_l3_is_shared_by_its_cores_only() -> None:
    board = replace(BOARD, l3_bytes=None, clusters=(LITTLE, replace(BIG, l3_bytes=4 << 20)))
    assert [level[1] for level in levels(core_model(board, 1, cores=2, elsewhere=2))] == [65536, 524288, 2 << 20]
    assert len(core_model(board, 0).levels) == 2


def test_cluster_with_fewer_cores_works_with_all_it_has() -> None:
    assert [machine.cores for machine in core_models(BOARD, cores=8)] == [2, 2]


def test_missing_facts_are_assumed_and_reported() -> None:
    bare = Board("bare", "", "aarch64-linux-gnu.2.17", (Cluster("cortex-a55", (0,)), Cluster("cortex-a76", (1,))))
    little, big = core_models(bare)

    sentences = "\n".join(little.assumed)
    for key in ("max_khz", "l1d_bytes", "l2_bytes", "l2_cores", "l2_gb_per_s", "memory_gb_per_s"):
        assert f"bare: clusters[0] (cortex-a55): {key} is not known" in sentences
        assert f"add {key} to boards/bare.toml" in sentences
    assert "32768 bytes assumed, typical of in-order cores" in sentences
    assert big.ghz > little.ghz
    assert big.levels[0].bandwidth_gb_per_s > little.levels[0].bandwidth_gb_per_s


def test_one_missing_fact_is_one_sentence() -> None:
    board = replace(BOARD, clusters=(replace(BIG, l2_gb_per_s=None),))
    (sentences,) = core_models(board)[0].assumed
    assert "l2_gb_per_s is not known: 38.4 GB/s assumed" in sentences  # 16 bytes a cycle at 2.4 GHz


def test_core_takes_the_bandwidth_of_its_like_on_the_board() -> None:
    board = replace(BOARD, clusters=(LITTLE, BIG, replace(BIG, cpus=(4,), memory_gb_per_s=None)))
    machine = core_models(board)[2]
    assert machine.levels[-1].bandwidth_gb_per_s == 12.0
    assert "12 GB/s of one core assumed, as another cluster has" in machine.assumed[0]


def test_cache_is_not_assumed_slower_than_what_is_behind_it() -> None:
    fast = replace(LITTLE, l2_gb_per_s=None, l3_gb_per_s=None, memory_gb_per_s=50.0)
    machine = core_model(replace(BOARD, clusters=(fast,), memory_gb_per_s=20.0), 0)
    assert [level.bandwidth_gb_per_s for level in machine.levels] == [50.0, 50.0, 20.0]


def test_host_names_its_own_way_out() -> None:
    board = Board("host", "", "x86_64-linux-gnu.2.17", (Cluster("znver3", (0,)),))
    assert all("give it in a file for MAVCG_HOST_FACTS" in sentences for sentences in core_models(board)[0].assumed)


def test_bandwidth_of_all_cores_is_assumed_only_where_it_is_needed() -> None:
    board = replace(BOARD, memory_gb_per_s=None)
    assert core_model(board, 0).assumed == ()
    pair = core_model(board, 0, cores=2)
    assert "24 GB/s of all cores together assumed" in pair.assumed[0]  # twice the fastest core's 12
    assert pair.levels[-1].bandwidth_gb_per_s == 5.0


def test_unknown_core_is_a_typical_one_and_reported() -> None:
    (machine,) = core_models(Board("b", "", "aarch64-linux-gnu.2.17", (replace(BIG, core="cortex-z99"),)))
    assert machine.core is None
    assert machine.macs_per_cycle == 8
    assert "is not a known core, so a typical core of its kind is assumed" in machine.assumed[0]
    assert "fma_per_cycle is not known: 2 vector multiply-adds" in machine.assumed[1]


@pytest.mark.parametrize(
    ("core", "array"),
    [("haswell", (8, 2)), ("znver3", (8, 2)), ("skylake-avx512", (16, 2)), ("intel-golden-cove", (8, 2))],
)
def test_x86_vectors_are_those_of_the_kernels(core: str, array: tuple[int, int]) -> None:
    (machine,) = core_models(Board("b", "", "x86_64-linux-gnu.2.17", (replace(BIG, core=core),)))
    assert core_accelerator("b", machine).pe_len == array and machine.macs_per_cycle == prod(array)


@pytest.mark.parametrize(("measured", "array"), [(1.96, (8, 2)), (1.02, (8, 1)), (0.51, (4, 1)), (0.01, (1, 1))])
def test_measured_rate_counts_before_the_core_s_facts(measured: float, array: tuple[int, int]) -> None:
    cluster = replace(BIG, core="znver3", fma_per_cycle=measured)
    (machine,) = core_models(Board("host", "", "x86_64-linux-gnu.2.17", (cluster,)))
    assert core_accelerator("b", machine).pe_len == array and machine.macs_per_cycle == prod(array)


@pytest.mark.parametrize(("cores", "elsewhere"), [(0, 0), (3, 0), (1, -1)])
def test_cores_that_are_not_there_are_refused(cores: int, elsewhere: int) -> None:
    with pytest.raises(MavcgError, match=r"mine: clusters\[1\] \(cortex-a76\): .*; give 1 to 2"):
        core_model(BOARD, 1, cores, elsewhere)


def test_board_of_unknown_cores_is_refused() -> None:
    with pytest.raises(MavcgError, match=r"--board host: none of its cores is known.*--accelerator"):
        core_models(Board("host", "", "x86_64-linux-gnu.2.17", ()))


def test_no_core_moves_more_than_the_whole_board() -> None:
    for board in load_boards().values():
        for cluster in board.clusters:
            alone, together = cluster.memory_gb_per_s, board.memory_gb_per_s
            assert alone is None or together is None or alone <= together, board.name
            assert cluster.l1d_bytes is None or cluster.l2_bytes is None or cluster.l1d_bytes < cluster.l2_bytes


def test_every_board_has_machines_with_growing_levels() -> None:
    for board in load_boards().values():
        for machine in (*core_models(board), *core_models(board, cores=64)):
            sizes = [level.shared_bytes for level in machine.levels]
            assert sizes == sorted(set(sizes)) and sizes[0] > 0, board.name
            assert all(level.bandwidth_gb_per_s > 0 for level in machine.levels)
            assert machine.macs_per_cycle >= 4 and 1 <= machine.ghz < 6


def test_caches_of_a_core_s_file_count_before_typical_ones() -> None:
    """By every door: predictions once assumed 256 KiB of level 2 where plans went by the core's own 1 MiB."""
    board = Board("b", "", "x86_64-linux-gnu.2.17", (Cluster("skylake-avx512", (0,), 3_000_000),))
    (core,) = core_models(board)

    assert [level.shared_bytes for level in core.levels[:2]] == [32 << 10, 1 << 20]
    assert not {"l1d_bytes", "l2_bytes"} & {fact.key for fact in core.missing}
    assert AssumedFact(None, "l3_bytes", core.levels[2].shared_bytes, "bytes for all cores") in core.missing
    assert core.levels == cores_of(("skylake-avx512",), parse_target(board.target), board)["skylake-avx512"].levels


def test_a_build_without_a_board_is_for_typical_cores() -> None:
    target = parse_target("aarch64-linux-gnu.2.17")
    model = board_model(cores_for(("cortex-a55", "cortex-a76")), target, None)

    assert not model.named and list(model.versions) == ["generic", "cortex-a55", "cortex-a76"]
    assert model.counts == {"generic": 0, "cortex-a55": TYPICAL_CORES, "cortex-a76": TYPICAL_CORES}
    assert [core.label for core in model.by_speed] == ["cortex-a76", "cortex-a55"]
    assert {label: machine.in_order for label, machine in model.machines.items()} == {
        "generic": False,
        "cortex-a55": True,
        "cortex-a76": False,
    }


def test_a_core_without_a_version_runs_the_generic_one() -> None:
    model = board_model(cores_for(("cortex-a55",)), parse_target(BOARD.target), BOARD)
    big, little = model.by_speed

    assert model.named and (big.cluster.core, big.label, little.label) == ("cortex-a76", "generic", "cortex-a55")
    assert big.rates.fma_per_cycle == 2 and big.timing is None  # the core's own rates
    assert [core.cores for core in model.team_of(big)] == [2, 2]
    assert model.team_of(big)[0].levels == core_model(BOARD, 1, 2).levels


def test_a_build_for_a_board_of_unknown_cores_says_so_where_it_needs_one() -> None:
    model = board_model((), parse_target(BOARD.target), Board("host", "", BOARD.target, ()))

    assert list(model.versions) == ["generic"]
    with pytest.raises(MavcgError, match="--board host: none of its cores is known"):
        _ = model.by_speed
