"""`mavcg estimate MODEL --board B` as a user meets it."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from mavcg.choose.predict import spec_text
from mavcg.choose.predict.files import library_note
from mavcg.cost.board_model import ALL_RATES, RATE_KEYS
from mavcg.hardware.board import Board, Cluster
from mavcg.model import estimating
from mavcg.model.sensitivity import assumed_facts, with_fact
from mavcg.profiles.load import load_board
from mavcg.toolchain.target import host_target


def test_a_small_model_for_a_phone(mavcg: Any, tiny_onnx: Path, here: Path) -> None:
    done = mavcg("estimate", tiny_onnx, "--board", "exynos9820", "--json", "--plot", "t.svg", "--threads", "auto")
    assert done.status == 0, done.stderr
    document = json.loads(done.stdout)

    assert document["predictions_are"] == "modelled, not measured"
    assert {"name", "op", "kernel", "predicted_ms", "by_cluster", "bound"} <= set(document["layers"][0])
    assert set(document["layers"][0]["by_cluster"]) == {"cortex-a55", "cortex-a75", "exynos-m4"}
    assert all(layer["predicted_ms"] > 0 for layer in document["layers"])
    assert document["total_ms"] == pytest.approx(sum(layer["predicted_ms"] for layer in document["layers"]), abs=1e-4)
    assert list(document["by_threads"]) == [str(n) for n in range(1, 9)]
    assert document["threads"] == document["best_threads"]
    assert document["by_threads"][str(document["best_threads"])] == min(document["by_threads"].values())
    conv = next(layer for layer in document["layers"] if layer["op"].endswith("conv2d"))
    assert conv["by_cluster"]["cortex-a55"]["cycles_from"] == "pipeline model"
    assert conv["by_cluster"]["exynos-m4"]["ms"] < conv["by_cluster"]["cortex-a55"]["ms"]
    assert any("l3_gb_per_s" in line for line in document["assumed"])  # the board's file does not say it
    assert ET.parse(here / "t.svg").getroot().tag.endswith("svg")


@pytest.mark.long
def test_half_precision_has_kernels_of_its_own(mavcg: Any, tiny_onnx: Path, here: Path) -> None:
    plain, half = (
        json.loads(mavcg("estimate", tiny_onnx, "--board", "exynos9820", "--json", *options).stdout)
        for options in ((), ("--precision", "f16"))
    )
    conv_of = [next(layer for layer in doc["layers"] if layer["op"].endswith("conv2d")) for doc in (plain, half)]
    assert "_f32_" in conv_of[0]["kernel"] and "_f16_" in conv_of[1]["kernel"]


@pytest.mark.long
def test_little_cores_alone_take_longer_and_a_slower_clock_too(mavcg: Any, tiny_onnx: Path) -> None:
    def milliseconds(*options: str) -> float:
        document = json.loads(mavcg("estimate", tiny_onnx, "--board", "exynos9820", "--json", *options).stdout)
        return float(document["total_ms"])

    big, little = milliseconds(), milliseconds("--core", "cortex-a55")
    assert big < little < milliseconds("--core", "cortex-a55", "--mhz", "900")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), ("tiny.onnx: is a model", "--board")),
        (("--core", "cortex-a55"), ("is a model", "--board")),
        (("--board", "exynos9820", "--core", "cortex-a72"), ("--core cortex-a72", "has no such core")),
        (("--board", "exynos9820", "--mhz", "1000"), ("--mhz 1000", "name one of them by --core")),
        (("--board", "host", "--core", "cortex-a55"), ("--board host", "--core")),
        (("--board", "exynos9820", "--verbose"), ("--verbose",)),
        (("--board", "exynos982"), ("exynos982", "exynos9820")),
        (("--board", "exynos9820", "--threads", "9"), ("--threads 9", "1 to 8")),
        (("--board", "exynos9820", "--threads", "none"), ("--threads none", "auto")),
        (("--board", "exynos9820", "--threads", "0"), ("--threads 0",)),
        (("--board", "exynos9820", "--plot", "t.gif"), ("--plot t.gif", ".svg")),
        (("--board", "exynos9820", "--shape", "x"), ("--shape x",)),
        (("--board", "exynos9820", "--precision", "f15"), ("--precision f15", "f32, f16, bf16 or auto")),
        (("--board", "rk3399", "--precision", "f16"), ("--precision f16", "cortex-a53, cortex-a72 have no")),
        (("--board", "exynos9820", "--precision", "f16", "--sensitivity"), ("--precision", "--sensitivity")),
        (("--board", "exynos9820", "--weights", "f8"), ("--weights f8", "give f16 or bf16")),
        (("--board", "exynos9820", "--weights", "f16", "--sensitivity"), ("--weights", "--sensitivity")),
    ],
)
def test_options_that_do_not_go_together(
    mavcg: Any, tiny_onnx: Path, here: Path, options: tuple[str, ...], words: tuple[str, ...]
) -> None:
    ended = mavcg("estimate", tiny_onnx, *options)

    assert ended.status == 2 and ended.stdout == ""
    for word in words:
        assert word in ended.stderr
    assert list(here.iterdir()) == []


def test_assembly_takes_a_core(mavcg: Any, here: Path) -> None:
    (here / "k.s").write_text("\t.text\n\t.globl f\nf:\n\tret\n")

    assert "name a --core" in mavcg("estimate", "k.s").stderr
    assert "neither a model" in mavcg("estimate", "k.s", "--board", "exynos9820").stderr
    assert "nobody.so: does not exist" in mavcg("estimate", "nobody.so", "--board", "exynos9820").stderr
    assert "--plot: is for models" in mavcg("estimate", "k.s", "--core", "cortex-a55", "--plot", "t.svg").stderr


def test_a_library_gives_what_its_model_gives(mavcg: Any, tiny_onnx: Path, tiny_library: Path, here: Path) -> None:
    board = {"x86_64": "alder-lake", "aarch64": "rk3399"}[host_target().arch]
    model, library = (
        json.loads(mavcg("estimate", file, "--board", board, "--json").stdout) for file in (tiny_onnx, tiny_library)
    )

    names = [(layer["name"], layer["op"], layer["kernel"], layer["macs"], layer["bytes"]) for layer in model["layers"]]
    assert [(s["name"], s["op"], s["kernel"], s["macs"], s["bytes"]) for s in library["layers"]] == names
    # Built for other cores, tiled for them, it runs the generic version; but it is the same work.
    assert any("has no version for it: it runs" in line for line in library["assumed"])
    assert library["total_ms"] == pytest.approx(model["total_ms"], rel=0.5)
    # A convolution of 3x3 from 4 to 5 channels, and all its bytes.
    conv = next(layer for layer in model["layers"] if layer["op"] == "conv2d" and layer["macs"])
    assert conv["macs"] % (9 * 4 * 5) == 0 and conv["bytes"]["weight"] >= 9 * 4 * 5 * 4


def test_a_library_with_a_note_of_before(
    mavcg: Any, tiny_library: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = {"x86_64": "alder-lake", "aarch64": "rk3399"}[host_target().arch]
    now = mavcg("estimate", tiny_library, "--board", board, "--json").stdout
    note = library_note(tiny_library)
    assert note is not None
    del note["spec_format"]
    # Other names, as another digest gave them, and specs as repr() printed them.
    note["kernels"] = {
        f"old_{name}": {**kernel, "spec": old_repr(kernel["spec"])} for name, kernel in note["kernels"].items()
    }
    for step in note["steps"]:
        step["kernel"] = "old_" + step["kernel"]
    monkeypatch.setattr(estimating, "library_note", lambda path: note)

    before = json.loads(mavcg("estimate", tiny_library, "--board", board, "--json").stdout)
    for layer in before["layers"]:
        assert layer["kernel"].startswith("old_")
        layer["kernel"] = layer["kernel"].removeprefix("old_")
    assert before == json.loads(now)

    note["spec_format"] = 2
    assert "its specs are in format 2" in mavcg("estimate", tiny_library, "--board", board).stderr


def old_repr(value: Any) -> str:
    """A serialised spec as repr() printed it before."""
    if isinstance(value, list):
        return f"({''.join(old_repr(item) + ',' for item in value)})"
    if not isinstance(value, dict):
        return repr(value)
    ((tag, content),) = value.items()
    for name, (known, members) in spec_text._OLD_MEMBERS.items():
        if known == tag:
            return f"<{name}.{next(m for m, v in members.items() if v == content)}: {content!r}>"
    name, names = next((n, text.split()) for n, (known, text) in spec_text._OLD_FIELDS.items() if known == tag)
    return f"{name}({', '.join(f'{n}={old_repr(v)}' for n, v in zip(names, content, strict=False))})"


def test_a_library_of_another_architecture(mavcg: Any, tiny_library: Path, here: Path) -> None:
    board = {"x86_64": "rk3399", "aarch64": "alder-lake"}[host_target().arch]

    ended = mavcg("estimate", tiny_library, "--board", board)
    assert ended.status == 2 and f"--board {board}" in ended.stderr and "libtiny.so" in ended.stderr
    assert "--shape" in mavcg("estimate", tiny_library, "--board", board, "--shape", "x=1").stderr


def test_on_this_machine_it_is_measured_too(
    mavcg: Any, tiny_library: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = {"x86_64": "znver3", "aarch64": "cortex-a76"}[host_target().arch]
    cluster = Cluster(core, (0, 1), 3_000_000, 32768, 524288, 1, l2_gb_per_s=60.0, memory_gb_per_s=12.0)
    board = Board("host", "this machine", host_target().zig_name, (cluster,), memory_gb_per_s=20.0)
    monkeypatch.setattr(estimating, "measured_host_board", lambda: board)
    monkeypatch.setattr(estimating, "SECONDS", 0.05)

    done = mavcg("estimate", tiny_library, "--board", "host", "--json")
    assert done.status == 0, done.stderr
    document = json.loads(done.stdout)
    assert all(layer["measured_ms"] > 0 for layer in document["layers"])
    assert document["measured_total_ms"] == pytest.approx(sum(s["measured_ms"] for s in document["layers"]), abs=1e-4)
    assert document["correlation"]["layers"] == len(document["layers"])
    assert "Pearson correlation" in mavcg("estimate", tiny_library, "--board", "host", "--threads", "2").stdout


def test_a_damaged_model(mavcg: Any, here: Path) -> None:
    (here / "m.onnx").write_bytes(b"\x08\x07nonsense")

    ended = mavcg("estimate", "m.onnx", "--board", "exynos9820")
    assert ended.status == 2 and "m.onnx" in ended.stderr


@pytest.mark.long
def test_sensitivity_says_what_each_assumed_fact_changes(mavcg: Any, tiny_onnx: Path) -> None:
    plain = json.loads(mavcg("estimate", tiny_onnx, "--board", "raspberry-pi-4", "--json").stdout)
    done = mavcg("estimate", tiny_onnx, "--board", "raspberry-pi-4", "--sensitivity", "--json")
    assert done.status == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["ms"] == pytest.approx(plain["total_ms"], rel=1e-4)
    rows = {(row["key"], row["factor"]): row for row in document["facts"]}
    assert rows and {factor for _, factor in rows} <= {0.0, 0.5, 2.0}
    assert {key for key, factor in rows if not factor} <= {"l2_bytes"}
    for (key, factor), row in rows.items():
        assert f"{key} is not known" in " ".join(plain["assumed"])
        assert row["value"] == factor * row["assumed"] and row["ratio"] == pytest.approx(
            row["ms"] / document["ms"], rel=1e-3
        )
    memory = [row["ms"] for (key, _), row in rows.items() if key == "memory_gb_per_s"]
    assert not memory or memory[0] >= memory[-1]
    cores = document["core_facts"]
    assert {row["core"] for row in cores} == {"cortex-a72"} and {row["error_is"] for row in cores} == {"published"}
    assert {row["key"] for row in cores} == {ALL_RATES, *RATE_KEYS}
    table = mavcg("estimate", tiny_onnx, "--board", "raspberry-pi-4", "--sensitivity")
    words = " ".join(table.stdout.split())
    assert table.status == 0 and "layers changed" in words and "layers whose choice changes" in words


@pytest.mark.long
def test_sensitivity_of_a_board_without_cache_facts_tries_one_without_level_2(
    mavcg: Any, tiny_onnx: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = (
        'name = "bare"\nsoc = "none"\ntarget = "aarch64-linux-gnu.2.17"\nsource = "this test"\n'
        '[[clusters]]\ncore = "cortex-a55"\ncpus = "0"\n'
    )

    def assumptions(text: str) -> set[tuple[str, float]]:
        (tmp_path / "boards").mkdir(exist_ok=True)
        (tmp_path / "boards" / "bare.toml").write_text(text)
        monkeypatch.setenv("MAVCG_PROFILES", str(tmp_path))
        done = mavcg("estimate", tiny_onnx, "--board", "bare", "--sensitivity", "--json")
        assert done.status == 0, done.stderr
        return {(row["key"], row["value"]) for row in json.loads(done.stdout)["facts"]}

    assert ("l2_bytes", 0.0) in assumptions(board)
    none = assumptions(board + 'l2_bytes = { value = 0, source = "this test" }\n')
    assert none and not any(key.startswith("l2") for key, _ in none)


def test_facts_that_a_board_file_calls_assumed_are_varied_too() -> None:
    """The rate of an A55 of exynos9820 from memory was left out: its file has it, as an assumption."""
    board = load_board("exynos9820")
    (found,) = [fact for fact in assumed_facts(board) if (fact.cluster, fact.key) == (0, "memory_gb_per_s")]
    assert found.value == board.clusters[0].memory_gb_per_s and found.unit == "GB/s"
    changed = with_fact(board, found, 2 * found.value)
    assert changed.clusters[0].memory_gb_per_s == 2 * found.value and changed.clusters[1:] == board.clusters[1:]
    published = {("clusters[1].l2_bytes", 1, "l2_bytes"), ("l3_bytes", None, "l3_bytes")}
    assert {place for place, _, _ in published} <= dict(board.sources).keys()
    assert not {(cluster, key) for _, cluster, key in published} & {(f.cluster, f.key) for f in assumed_facts(board)}


def test_sensitivity_beside_other_options(mavcg: Any, tiny_onnx: Path) -> None:
    drawn = mavcg("estimate", tiny_onnx, "--board", "raspberry-pi-4", "--sensitivity", "--plot", "t.svg")
    assert drawn.status == 2 and "--plot: draws one prediction" in drawn.stderr
    loops = mavcg("estimate", "kernel.S", "--core", "cortex-a55", "--sensitivity")
    assert loops.status == 2 and "--sensitivity: is for models" in loops.stderr
