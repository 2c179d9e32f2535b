"""Other runtimes beside mavcg on simulated cores: what a process sees of a core, which rows are kept, their tables."""

from pathlib import Path
from typing import Any

import pytest

from bench import arm_peers as run
from bench.arm_peer_rows import (
    ROWS_FILE,
    facts_version,
    kept_row,
    key_of,
    read_rows,
    version_of,
    with_rows,
    write_rows,
)
from bench.arm_peers import Bench, computes, refreshed
from bench.arm_programs import BOARDS
from bench.arm_root import core_files
from bench.tables.arm_peers import PEERS, arm_peers, by_network, fastest_peer, ratio_of
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
        "version": version_of(runtime),
        "facts": facts_version(load_core(core)),
        "simulator": "new",
        "commit": "abc",
        "date": "2026-12-01",
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
    rows += [{**failed("mnn", net="m"), "date": "2026-11-30"}]
    text = arm_peers({"rows": rows})
    assert "| cortex-a55 | f32 | 2 | 1.00 | 2.00 |" in text
    assert "| cortex-a55 | n | f32 | 50.0 |  |  | 100.0 |  | 0.50 | ncnn | abc |" in text
    assert "Peers: 2026-11-30 to 2026-12-01." in text and "At most 10.00 % of" in text
    assert "| cortex-a55 | m | f32 | mnn | no such file |" in text
    assert "| type | instructions, mavcg | instructions, peer | L1 misses, mavcg | L1 misses, peer |" in text
    assert "| cortex-a55 | n | f32 | 500.00 | 1000.00 | 1.00 | 1.00 | 2.00 | 2.00 |" in text


ORIGIN = {
    "kind": "modelled",
    "command": "c",
    "date": "2026-12-01 00:00 UTC",
    "commit": "abc",
    "machine": {"processor": "p", "cpus": 2, "virtual": True},
}


def failed(runtime: str, net: str = "n") -> dict[str, Any]:
    about = row(runtime, 1, net=net)
    return {key: about[key] for key in about if key not in ("cycles", "instructions")} | {"error": "no such file"}


def test_rows_of_a_run_take_the_place_of_earlier_ones(tmp_path: Path) -> None:
    rows = with_rows([row("mavcg", 1), row("ncnn", 2)], [row("ncnn", 3), row("ncnn", 4, net="m")])
    assert [(r["net"], r["runtime"], r["cycles"]) for r in rows] == [
        ("m", "ncnn", 4),
        ("n", "mavcg", 1),
        ("n", "ncnn", 3),
    ]
    assert read_rows(tmp_path / "rows.json") == []
    write_rows(tmp_path / "rows.json", rows)
    assert read_rows(tmp_path / "rows.json") == rows


@pytest.mark.parametrize("changed", [{}, {"version": "0"}, {"facts": "0"}, {"net": "m"}, {"dtype": "f16"}])
def test_a_row_holds_for_its_version_and_the_facts_of_its_core(changed: dict[str, str]) -> None:
    rows, key = [{**row("ncnn", 5), **changed}, failed("mnn")], ("cortex-a55", "n", "f32", "ncnn")
    assert kept_row(rows, key, load_core("cortex-a55")) == (None if changed else rows[0])
    assert kept_row(rows, (*key[:3], "mnn"), load_core("cortex-a55")) is None


@pytest.mark.parametrize("cycles", [100_100, 99_000])
def test_rows_hold_after_a_change_of_the_simulator_that_leaves_cycles(
    cycles: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [row("ncnn", 100_000), row("mnn", 200_000), row("ncnn", 1_000, core="cortex-a76"), row("mavcg", 10)]
    asked: list[tuple[str, ...]] = []

    def simulate(bench: Bench, network: str, core: Any, runtime: str, dtype: str) -> dict[str, Any]:
        asked.append((core.name, network, dtype, runtime))
        return {**row(runtime, cycles, net=network), "simulator": bench.simulator}

    monkeypatch.setattr(Bench, "row", simulate)
    core, today = load_core("cortex-a55"), Bench(Path(), 0, "newer", "abc")
    after = {key_of(r): r for r in refreshed(rows, core, "f32", today)}
    assert asked == [("cortex-a55", "n", "f32", "ncnn")]
    assert after[asked[0]]["simulator"] == "newer"
    assert (("cortex-a55", "n", "f32", "mnn") in after) == (cycles == 100_100)
    assert after[asked[0]]["cycles"] == (100_000 if cycles == 100_100 else 99_000)
    assert {r["simulator"] for r in after.values() if r["core"] == "cortex-a76" or r["runtime"] == "mavcg"} == {"new"}
    assert refreshed(rows, core, "f32", Bench(Path(), 0, "new", "abc")) == rows


def test_a_peer_is_simulated_where_it_has_no_row_and_mavcg_always(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def simulate(bench: Bench, network: str, core: Any, runtime: str, dtype: str) -> dict[str, Any]:
        asked.append(runtime)
        return row(runtime, 7, net=network, core=core.name)

    monkeypatch.setattr(Bench, "row", simulate)
    monkeypatch.setattr(run, "simulator_version", lambda: "new")
    monkeypatch.setattr(run, "facts", lambda kind, module: ORIGIN)
    net, path = "squeezenet-random", tmp_path / "rows.json"
    write_rows(path, [row(name, 5, net=net) for name in ("ncnn", "mavcg")])
    words = ["--json", str(path), "--nets", net, "--cores", "cortex-a55", "--dtypes", "f32"]
    run.main([*words, "--runtimes", "ncnn,mnn,mavcg"])
    assert asked == ["mnn", "mavcg"] and [r["cycles"] for r in read_rows(path)] == [7, 7, 5]
    run.main([*words, "--runtimes", "ncnn,mnn,mavcg", "--missing"])
    assert asked == ["mnn", "mavcg"] and "squeezenet-random" in capsys.readouterr().out


def test_the_kept_rows_are_of_cores_and_runtimes_that_the_bench_has() -> None:
    rows = read_rows(ROWS_FILE)
    assert rows and all(row["core"] in BOARDS and row["runtime"] in (*PEERS, "mavcg") for row in rows)
    assert len({key_of(row) for row in rows}) == len(rows)
