"""`mavcg cores`, run as a user runs it; the runtime behind "this machine" is the real one."""

import json
import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

import mavcg.hosts.facts
import mavcg.hosts.host
from mavcg.cli.cores import cores, this_machine
from mavcg.cli.cores_tables import recognition_text
from mavcg.errors import MavcgError
from mavcg.hardware.core import SILICON_GROUPS
from mavcg.hardware.cpu_list import cpu_ranges
from mavcg.hosts.facts import CoreFacts, HostFacts
from mavcg.profiles.board_files import parse_cpus
from mavcg.profiles.load import load_boards, load_core, load_cores
from mavcg.runtime.binding import DetectedCpu

RECORDED = Path(__file__).parents[2] / "boards"


def run(*arguments: str) -> Result:
    app = typer.Typer()
    app.command()(cores)
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200", "NO_COLOR": "1"})


def test_json_holds_machine_cores_and_boards() -> None:
    result = run("--json")

    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert set(told) == {"this_machine", "cores", "boards"}
    assert [core["name"] for core in told["cores"]] == list(load_cores())
    assert [board["name"] for board in told["boards"]] == list(load_boards())
    assert told["this_machine"] and all(set(cpu) == {"cpu", "core", "how"} for cpu in told["this_machine"])
    a55 = next(core for core in told["cores"] if core["name"] == "cortex-a55")
    assert a55["midr"][0] == {"implementer": 0x41, "part": 0xD05, "variant_min": 1, "variant_max": 15}
    assert a55["order"] == "in" and a55["llvm_cpu"] == "cortex-a55" and a55["sources"]["midr[0]"]


def test_this_machine_lists_the_cpus_that_are_there() -> None:
    told = json.loads(run("--json").stdout)

    present = parse_cpus(Path("/sys/devices/system/cpu/present").read_text())
    assert {cpu["cpu"] for cpu in told["this_machine"]} <= set(present)


def test_tables_name_every_core_and_board() -> None:
    result = run()

    assert result.exit_code == 0, result.output
    for name in (*load_cores(), *load_boards(), "This machine"):
        assert name in result.stdout
    assert "0x53/0x001 r4" in result.stdout and "0-3: cortex-a55 at 1.95 GHz" in result.stdout


@pytest.fixture
def host_facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Facts of a machine whose figures are told apart by how they came about: what was done, in order."""
    done: list[str] = []

    def measure(*_: object) -> HostFacts:
        done.append("measured")
        return HostFacts("", (CoreFacts("znver3", (0, 1), 3_200_000, l2_gb_per_s=90.5 + len(done)),), 8 << 20, 40.0)

    monkeypatch.setattr(mavcg.hosts.facts, "measure", measure)
    monkeypatch.setattr(mavcg.hosts.host, "detect", lambda: [DetectedCpu(cpu, "znver3", "") for cpu in range(2)])
    monkeypatch.delenv("MAVCG_HOST_FACTS", raising=False)
    monkeypatch.setenv("MAVCG_CACHE", str(tmp_path))
    return done


def test_this_machine_as_measured_once_and_anew(host_facts: list[str]) -> None:
    rates = []
    for words in (["--json"], ["--json"], ["--measure", "--json"], ["--json"]):
        result = run("host", *words)
        assert result.exit_code == 0, result.output
        (board,) = json.loads(result.stdout)["boards"]
        rates.append(board["clusters"][0]["l2_gb_per_s"])
    assert rates == [91.5, 91.5, 92.5, 92.5] and len(host_facts) == 2
    table = run("host").stdout
    assert re.search(r"^sandbox: (Landlock [2-9]|no Landlock), (no )?filters of system calls", table, re.M)
    assert "92.5" in table and "3.20 GHz" in table and "L3: 8192 KiB" in table and "Sources" not in table


@pytest.mark.parametrize("name", [None, "check", "cortex-a55"])
def test_only_this_machine_is_measured(name: str | None, host_facts: list[str]) -> None:
    with pytest.raises(MavcgError, match="--measure measures this machine; give `mavcg cores host --measure`"):
        cores(name, measure=True)
    assert not host_facts


def test_one_core_with_facts_and_sources() -> None:
    result = run("cortex-a55-r0")

    assert result.exit_code == 0, result.output
    for word in ("in order", "0x41/0xd05 r0", "cortex-a55 tuned as cortex-a53 -dotprod", "exynos9810", "aarch64-isa.c"):
        assert word in " ".join(result.stdout.split()), word


def test_one_core_has_the_blocking_of_its_products() -> None:
    """The five sizes that BLIS would print, by library and data type; a list of all cores does not plan them."""
    document = json.loads(run("cortex-a55", "--json").stdout)
    (told,) = document["cores"]
    assert document["blocking"] == told["blocking"]
    assert {kind: list(planned) for kind, planned in told["blocking"].items()} == {
        "blas": ["f32", "f64"],
        "models": ["f32", "u8"],
    }
    assert told["blocking"]["blas"]["f32"] == {"mr": 8, "nr": 12, "mc": 40, "kc": 288, "nc": 504}

    assert document["model"] == told["model"]
    assert told["model"]["kind"] == "in-order" and told["model"]["macs_per_cycle"] == 4
    assert [(level["name"], level["bytes"]) for level in told["model"]["levels"]] == [("L1", 32768), ("L2", 131072)]
    assert {"l1d_bytes", "l2_bytes", "max_khz"} <= set(told["model"]["assumed"])
    assert "fma_per_cycle" not in told["model"]["assumed"] and told["model"]["rates"]["fma_per_cycle"] == 1

    table = run("cortex-a55").stdout
    words = " ".join(table.split())
    assert "for L1 32 KiB, L2 128 KiB" in words
    assert "l1d_bytes, l2_bytes: as typical in-order cores have; a board's file has its own" in words
    assert "MR" in table and ["BLAS", "f32", "8", "12", "40", "288", "504"] in [
        [cell.strip() for cell in line.split("│")[1:-1]] for line in table.splitlines()
    ]
    assert all("blocking" not in core for core in json.loads(run("--json").stdout)["cores"])


def test_a_core_tells_how_far_its_timing_is_to_be_believed() -> None:
    """Scripts read `confidence` and `silicon`; people read that nothing is known where no figure is."""
    (told,) = json.loads(run("cortex-a53", "--json").stdout)["cores"]
    assert told["confidence"] == "measured by instruction"
    assert set(told["silicon"]) == {
        "figures",
        "mean_abs_error",
        "held_out_figures",
        "held_out_error",
        "kinds",
        "blind_figures",
        "blind_error",
    }
    document = json.loads(run("cortex-a53", "--json").stdout)
    assert (document["confidence"], document["silicon"]) == (told["confidence"], told["silicon"])
    assert "confidence" not in json.loads(run("exynos9820", "--json").stdout)
    assert told["silicon"]["figures"] > 100 and 0 < told["silicon"]["held_out_error"] < 0.1

    assert json.loads(run("cortex-a75", "--json").stdout)["cores"][0]["silicon"] is None
    assert "no published figure is compared" in " ".join(run("cortex-a75").stdout.split())
    assert "published figures of instructions" in " ".join(run("neoverse-n1").stdout.split())


# Words of the record for the groups of SILICON_GROUPS.
TITLES = {"": "cycles of calls and loops", "changes_": "changes in time", "instructions_": "cycles an instruction"}


def test_held_out_errors_are_those_of_the_record() -> None:
    """`cores` once had those of calls and loops alone: 7 % for the A510, whose changes in time are 20 % off."""
    record = json.loads((Path(__file__).parents[3] / "bench/results/silicon_cores.json").read_text())
    (table,) = (part for part in record["parts"] if isinstance(part, dict))
    held_out = {(row[0], row[1].removeprefix("published ")): (row[4], row[5]) for row in table["rows"]}
    compared = 0
    for name, core in load_cores().items():
        if core.silicon is None:
            continue
        figures = {"": 0, "instructions_": 0}
        for prefix, title in TITLES.items():
            errors = core.silicon.kinds.get(SILICON_GROUPS[prefix])
            percent, count = held_out.get((name, title), ("", ""))
            if errors is None or errors.held_out_error is None:
                assert not percent, (name, title)
                continue
            assert int(count) == errors.held_out_figures and abs(float(percent) - 100 * errors.held_out_error) < 0.06
            figures["instructions_" if prefix == "instructions_" else ""] += int(count)
        if core.silicon.held_out_error is not None:  # of kernels, or of instructions if no kernel was published
            assert core.silicon.held_out_figures in figures.values(), name
            compared += 1
    assert compared > 10


def test_one_board_with_its_cores() -> None:
    told = json.loads(run("exynos9820", "--json").stdout)

    assert [core["name"] for core in told["cores"]] == ["cortex-a55", "cortex-a75", "exynos-m4"]
    assert [board["name"] for board in told["boards"]] == ["exynos9820"]
    assert told["boards"][0]["clusters"][2]["cpus"] == [6, 7]


def test_one_board_for_people() -> None:
    result = run("exynos8895")

    assert result.exit_code == 0, result.output
    told = " ".join(result.stdout.split())
    for word in ("4-7 │ exynos-m2 │ 2.31 GHz │ 32 KiB │ 2048 KiB for 4 cores", "galaxy-s8-global.h"):
        assert word in told, told


def test_bandwidths_of_a_board_and_of_its_cores() -> None:
    (board,) = json.loads(run("rk3588", "--json").stdout)["boards"]
    rates = [(c["l2_gb_per_s"], c["l3_gb_per_s"], c["memory_gb_per_s"]) for c in board["clusters"]]
    clusters = load_boards()["rk3588"].clusters
    assert rates == [(c.l2_gb_per_s, c.l3_gb_per_s, c.memory_gb_per_s) for c in clusters]
    assert board["memory_gb_per_s"] == 22.0 and rates[1] == (None, None, 21.7)

    shown = run("rk3588").stdout
    assert "?, ?, 21.7" in shown and "Memory, all cores together: 22 GB/s." in shown


def test_unknown_name_is_refused_with_the_near_ones() -> None:
    result = run("cortex-a5")

    assert isinstance(result.exception, MavcgError) and not result.stdout
    assert "no core and no board has this name; did you mean cortex-a" in str(result.exception)


@pytest.mark.parametrize("arguments", [("check",), ("--check",)])
@pytest.mark.sample(1)
def test_check_finds_our_facts_sound(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)

    assert result.exit_code == 0, result.output
    assert f"{len(load_cores())} cores and {len(load_boards())} boards" in result.stdout


def test_check_tells_what_is_not_known() -> None:
    told = json.loads(run("check", "--json").stdout)

    assert told["faults"] == []
    assert told["lacking"]["apple-avalanche"] == ["mmla_q", "bfmmla_q", "bfmlal_q"]
    assert "cortex-a55" not in told["lacking"]
    assert "znver3" in told["without_timing"] and "cortex-a53" not in told["without_timing"]
    assert "apple-avalanche lacks the timing of" in run("check").stdout


def test_one_core_with_its_passes_and_timing() -> None:
    a55, r0 = run("cortex-a55"), run("cortex-a55-r0")
    policy = json.loads(run("cortex-a76", "--json").stdout)["cores"][0]["policy"]

    assert "split, unpair, schedule" in a55.stdout and "rows of instruction classes" in a55.stdout
    assert "of another core" in r0.stdout and "loads.split" in r0.stdout
    assert policy["split"] is False and "20.0 cycles in place of 16.0" in policy["sources"]["split"]


def test_check_names_each_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cores").mkdir()
    (tmp_path / "cores/mine.toml").write_text('name = "mine"\narch = "aarch64"\norder = "in"\n')
    monkeypatch.setenv("MAVCG_PROFILES", str(tmp_path))

    plain, as_json = run("check"), run("check", "--json")

    assert isinstance(plain.exception, MavcgError) and "faults in the facts: 1" in str(plain.exception)
    assert "mine.toml: order:" in plain.stdout
    assert "mine.toml: order:" in json.loads(as_json.stdout)["faults"][0]


def test_hybrid_processor_is_named_by_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many cores are of kind "core": only the model says that this one is a Golden Cove."""
    from mavcg.toolchain.target import Target

    monkeypatch.setattr("mavcg.cli.cores.host_target", lambda: Target("x86_64", "linux-gnu", "2.36"))

    machine = this_machine(load_cores(), RECORDED / "alder-lake")

    assert {cpu.cpu: cpu.core for cpu in machine} == {
        cpu: "intel-golden-cove" if cpu < 8 else "intel-gracemont" for cpu in range(16)
    }


@pytest.mark.parametrize(
    ("cpus", "text"), [((), ""), ((3,), "3"), ((0, 1, 2, 3, 6), "0-3,6"), ((5, 4), "4-5"), ((0, 2), "0,2")]
)
def test_cpus_are_written_as_ranges(cpus: tuple[int, ...], text: str) -> None:
    assert cpu_ranges(cpus) == text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cortex-a55", "0x41/0xd05 r1+, 0x51/0x805"),
        ("cortex-a75-r0", "0x41/0xd0a r0-r1, 0x51/0x802"),
        ("exynos-m1", "0x53/0x001 r1"),
        ("intel-gracemont", "atom CPUs of GenuineIntel family 0x06 model 0x97,0x9a,0xb7,0xba,0xbf"),
        ("znver3", "AuthenticAMD family 0x19 model 0x00-0x0f,0x20-0x5f"),
    ],
)
def test_recognised_in_words(name: str, text: str) -> None:
    assert recognition_text(load_core(name)) == text
