"""Other runtimes beside mavcg on simulated cores: what a process sees of a core, and the tables of the rows."""

from typing import Any

import pytest

from bench.arm_peers import computes, with_rows, without_known
from bench.arm_programs import BOARDS
from bench.arm_root import core_files
from bench.tables.arm_peers import arm_peers, by_network, fastest_peer, ratio_of
from mavcg.profiles.load import load_board, load_core


@pytest.mark.parametrize("name", sorted(BOARDS))
def test_a_process_sees_the_core(name: str) -> None:
    core, files = load_core(name), core_files(load_core(name))
    midr = int(files["sys/devices/system/cpu/cpu0/regs/identification/midr_el1"], 16)
    assert any(rule.matches(midr) for rule in core.midr)
    facts = dict(line.split("\t: ") for line in files["proc/cpuinfo"].splitlines())
    assert int(facts["CPU part"], 16) == midr >> 4 & 0xFFF and int(facts["CPU variant"], 16) == midr >> 20 & 15
    assert ("asimddp" in facts["Features"].split()) == ("dotprod" in core.extensions)
    assert ("asimdhp" in facts["Features"].split()) == ("fullfp16" in core.extensions)
    assert any(cluster.core == name for cluster in load_board(BOARDS[name]).clusters)


def row(runtime: str, cycles: int, difference: float = 0.0, net: str = "n", core: str = "cortex-a55") -> dict[str, Any]:
    return {
        "net": net,
        "core": core,
        "runtime": runtime,
        "dtype": "f32",
        "cycles": cycles,
        "instructions": 10 * cycles,
        "misses": {"l1": 1_000_000},
        "lines_read": 2_000_000,
        "unmodelled": cycles,
        "unknown_addresses": 0,
        "difference": difference,
    }


def test_mavcg_is_held_against_the_fastest_peer_with_the_same_outputs() -> None:
    rows = [row("mavcg", 60), row("ncnn", 80), row("mnn", 70), row("litert", 10, difference=0.5)]
    (runtimes,) = by_network({"rows": rows}).values()
    assert fastest_peer(runtimes) == "mnn"
    assert ratio_of(runtimes) == pytest.approx(60 / 70)
    assert ratio_of({"ncnn": rows[1]}) is None


def test_half_precision_is_for_cores_and_runtimes_that_have_it() -> None:
    old, new = load_core("cortex-a53"), load_core("cortex-a55")
    assert [computes(name, "f16", new) for name in ("ncnn", "mnn", "mavcg", "onnxruntime")] == [True, True, True, False]
    assert not computes("ncnn", "f16", old) and computes("onnxruntime", "f32", old)


def test_tables_have_geometric_means_and_what_does_not_count() -> None:
    rows = [row("mavcg", 50_000_000), row("ncnn", 100_000_000)]
    rows += [row("mavcg", 200_000_000, net="m"), row("ncnn", 100_000_000, net="m")]
    rows += [{"net": "m", "core": "cortex-a55", "runtime": "mnn", "dtype": "f32", "error": "no such file"}]
    text = arm_peers({"rows": rows})
    assert "| cortex-a55 | f32 | 2 | 1.00 | 2.00 |" in text
    assert "| cortex-a55 | n | f32 | 50.0 |  |  | 100.0 |  | 0.50 | ncnn |" in text
    assert "| cortex-a55 | m | f32 | mnn | no such file |" in text
    assert "| cortex-a55 | n | f32 | ncnn | 1000.00 | 1.00 | 2.00 | 10.00 | 0.00 |" in text


def test_rows_of_a_run_take_the_place_of_earlier_ones() -> None:
    known = {"rows": [row("mavcg", 1), row("ncnn", 2)]}
    record = with_rows(known, [row("ncnn", 3), row("ncnn", 4, net="m")])
    assert [(r["net"], r["runtime"], r["cycles"]) for r in record["rows"]] == [
        ("m", "ncnn", 4),
        ("n", "mavcg", 1),
        ("n", "ncnn", 3),
    ]


def test_a_run_that_was_cut_off_goes_on_with_the_runtimes_that_have_no_row() -> None:
    rows = [row("ncnn", 1), row("mnn", 1, net="m"), row("litert", 1, core="cortex-a76")]
    names = ["ncnn", "mnn", "litert", "mavcg"]
    assert without_known(names, "n", load_core("cortex-a55"), "f32", rows) == ["mnn", "litert", "mavcg"]
    assert without_known(names, "n", load_core("cortex-a55"), "f16", rows) == names
