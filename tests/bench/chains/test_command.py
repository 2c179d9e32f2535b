"""`make differential` and `python -m bench.chains` to the letter: a run, its continuation, one chain, one file."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("ai_edge_litert")

from bench.chains import __main__ as command  # noqa: E402
from bench.chains import results  # noqa: E402
from bench.chains.chain import as_json  # noqa: E402
from bench.chains.libraries import GENERIC, Judged, judged  # noqa: E402
from bench.chains.random_chain import BATCH, random_chain  # noqa: E402
from bench.chains.verdict import Verdict, opinions_of  # noqa: E402
from bench.tables.catalogue import summary  # noqa: E402
from mavcg.errors import MavcgError  # noqa: E402

ROOT = Path(__file__).parents[3]


def test_make_differential_runs_the_command() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    said = subprocess.run(
        ["make", "-n", "differential", "MINUTES=5", "SEED=4"], cwd=ROOT, env=environment, capture_output=True, text=True
    ).stdout

    assert "-m bench.chains --minutes 5 --seed 4" in said


def test_outcomes_are_kept_by_seed_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    chain = random_chain(7, 3)
    first = results.outcome(3, chain, Judged(Verdict("explained", "onnxruntime alone: Tan", 10, 1), ("generic",)))
    second = results.outcome(4, None, Judged(Verdict("crash", "died of SIGSEGV")))
    results.append(7, [first])
    results.append(7, [second])
    with open(tmp_path / "7.jsonl", "a") as file:
        file.write('{"number": 5, "sta')  # the run ended here

    done = results.load(7)

    assert done == [first, second]
    assert results.load(8) == []
    counted = results.summary(done)
    assert counted["counts"] == {"explained": 1, "crash": 1}
    assert (counted["elements"], counted["undetermined"]) == (10, 1)
    assert counted["explained"] == {"onnxruntime alone: Tan": 1}
    assert [fault["reason"] for fault in counted["faults"]] == ["died of SIGSEGV"]


def test_the_record_has_a_row_by_date_and_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = {}

    def write(name: str, rows: dict[str, Any]) -> Path:
        written[name] = rows
        return tmp_path

    monkeypatch.setattr(results, "write", write)
    monkeypatch.setattr(results, "_recorded_rows", lambda: (("2026-01-02", "1", "abc", "9", *"9000000"),))
    done = [results.outcome(3, random_chain(7, 3), Judged(Verdict("same", "", 10, 1), ("generic",)))]

    results.record(1, done)

    first, before = written["chains"]["rows"]
    assert first[1:2] + first[3:] == ["1", "1", "1", "0", "0", "0", "0", "0", "0"]
    assert before[0] == "2026-01-02"
    assert summary("chains", written["chains"]).cell("20*", "same") == "1"


def test_a_file_that_no_run_kept_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"chain": 1}')

    with pytest.raises(MavcgError, match=r"x\.json: no chain that a run kept"):
        results.kept(path)


@pytest.mark.long
def test_a_run_goes_on_where_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    for count in (BATCH, 2 * BATCH):
        monkeypatch.setattr(
            sys, "argv", ["chains", "--minutes", "30", "--seed", "7", "--count", str(count), "--workers", "1"]
        )
        with pytest.raises(SystemExit) as ended:
            command.main()
        assert ended.value.code == 0
        assert f"{count} chains: same" in capsys.readouterr().out
    assert sorted(one.number for one in results.load(7)) == list(range(2 * BATCH))


@pytest.mark.long
def test_a_wrong_kernel_is_found_shrunk_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel of Ceil in f64 that rounds down."""
    import numpy as np

    from bench.chains.chain import ONNX, Chain, Node
    from mavcg.kernels.builder import activation, arithmetic

    wrong = {**arithmetic.DOUBLE_UNARY, "ceil": arithmetic.DOUBLE_UNARY["floor"]}
    monkeypatch.setattr(activation, "DOUBLE_UNARY", wrong)
    nodes = (
        Node("Abs", ("g_x",), ("g_a",)),
        Node("Ceil", ("g_a",), ("g_b",)),
        Node("Add", ("g_b", "g_x"), ("g_c",)),
        Node("Transpose", ("g_c",), ("g_d",), {"perm": [1, 0]}),
    )
    x = np.linspace(-3.3, 3.1, 24).reshape(4, 6)
    chain = Chain(ONNX, "g_", 17, nodes, {}, {"g_x": x}, ("g_d",))
    (found,) = judged([chain], GENERIC, tmp_path)
    assert found.verdict.reason == "Transpose: mavcg alone in 24 of 24 elements"

    small, verdict = command.shrink(chain, found.verdict, GENERIC, tmp_path)

    assert [node.op for node in small.nodes] == ["Ceil"]
    assert "Ceil: mavcg alone" in verdict.reason
    assert len(str(as_json(small))) < 1024


def test_a_wrong_shape_is_found_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An import that infers one dimension more; nothing is built then."""
    chain = random_chain(7, 3)
    opinions = opinions_of(chain)
    assert opinions.runtime is not None
    monkeypatch.setattr(
        "bench.chains.libraries.inferred_by_mavcg",
        lambda c, folder: {n: ((*x.shape, 1), x.dtype.name) for n, x in opinions.runtime.items()},
    )

    (found,) = judged([chain], GENERIC, tmp_path)

    assert found.verdict.status == "different"
    assert found.verdict.reason.startswith(f"shape of {chain.nodes[0].op}: mavcg alone: ")
