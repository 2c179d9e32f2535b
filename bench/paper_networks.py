"""The networks of Park's thesis: twelve in f32, four in 8 bits, two encoders; built, checked, and their share of GEMM.

    python -m bench.paper_networks [NETWORK ..] [--record]     build, run, compare, profile; rows add up in the record
    python -m bench.paper_networks --arm [NETWORK ..] --record model their shares on the cores of an Exynos 9820
    python -m bench.paper_networks --times --record            beside onnxruntime, one thread: for a quiet hour
    python -m bench.paper_networks --chart shares.svg          the record's shares as bars

Each network is built as `mavcg build --board host` does and compared with onnxruntime as bench.model_accuracy does.
Shares of time by class of function are those of `mavcg profile --classes --of LIB -- mavcg bench LIB`, one thread; on
Arm cores they are sums of the layers of `mavcg estimate --board exynos9820`, the board of the thesis' figure 2.1.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.host_library import build_for_host
from bench.model_accuracy import check_library
from bench.models import model_path
from bench.paper_names import NETWORKS
from bench.record import facts, write
from bench.rows import measured, measured_or_none
from mavcg.errors import MavcgError
from mavcg.program.profiling.class_chart import plot_classes
from mavcg.program.profiling.function_classes import CLASSES, GEMM, ClassShares, class_of

BOARD = "exynos9820"
PAPER = {"f32": 0.64, "8-bit": 0.61}  # the hottest function, in the mean; Exynos 9820, TensorFlow Lite: section 2.1
NAME = "paper_networks"


def built(name: str) -> dict[str, Any]:
    """Build a network, compare its results, profile it; return its row without the parts of --arm and --times."""
    path = model_path(NETWORKS[name])
    with tempfile.TemporaryDirectory(prefix="mavcg-paper-") as folder:
        library = build_for_host(path, Path(folder) / "libnet.so", jobs=1)
        checked = asdict(check_library(NETWORKS[name], library))
        return {**counts(path), **checked, "profile": profiled(library)}


def counts(path: Path) -> dict[str, Any]:
    """Return nodes and parameters of the file, and multiply-accumulates of the built graph."""
    import math

    import onnx

    from mavcg.accelerators.plans.graph_layers import layers_of
    from mavcg.importers.load import import_model
    from mavcg.passes.graph.pipeline import optimise

    file = onnx.load(path)
    graph = optimise(import_model(path, {}))
    return {
        "nodes": len(file.graph.node),
        "parameters": sum(math.prod(t.dims) for t in file.graph.initializer),
        "nodes_after_fusion": len(graph.nodes),
        "macs": sum(layer.macs for layer in layers_of(graph)),
    }


def profiled(library: Path) -> dict[str, Any]:
    """Return the share of time by class of the library's functions, by perf."""
    mavcg = [sys.executable, "-m", "mavcg.cli"]
    bench = [*mavcg, "bench", str(library), "--seconds", "2", "--runs", "2"]
    command = [*mavcg, "profile", "--classes", "--json", "--of", library.name, "--", *bench]
    done = subprocess.run(command, capture_output=True, text=True, cwd=library.parent)
    if done.returncode:
        raise MavcgError(f"{library}: profiling failed: {done.stderr.strip().splitlines()[-1]}")
    row: dict[str, Any] = json.loads(done.stdout)["classes"][0]
    return {key: row[key] for key in ("shares", "hottest", "hottest_share")}


def on_arm(name: str) -> dict[str, Any]:
    """Return the modelled share of GEMM and convolutions in the time on each of the board's core types, one thread."""
    from mavcg.model.estimating import predict_file
    from mavcg.profiles.load import load_board

    prediction = predict_file(model_path(NETWORKS[name]), load_board(BOARD), 1, {}, 1)
    shares = {}
    for label, core in prediction.clusters.items():
        sums = dict.fromkeys(CLASSES, 0.0)
        for layer in prediction.layers:
            sums[class_of(layer.work.kernel, layer.work.kernel)] += layer.on[label].ms
        total = sum(sums.values())
        shares[core.label] = {"ms": total, "shares": {key: ms / total for key, ms in sums.items()}}
    return {"arm": shares}


def timed(name: str) -> dict[str, Any]:
    """Return milliseconds beside onnxruntime, interleaved: the row of bench.peers."""
    from bench.peers import compare

    return {"times": compare(NETWORKS[name], 1, 5, ["mavcg", "onnxruntime"], "ms")}


def chart(rows: Mapping[str, Any], path: Path) -> None:
    """Draw the record's measured shares."""
    shares = [
        ClassShares(name, rows[name]["profile"]["shares"], "", rows[name]["profile"]["hottest_share"], 0)
        for name in NETWORKS
        if "profile" in rows.get(name, {})
    ]
    plot_classes(shares, path, "Share of time by class of function, this machine, one thread (measured by perf)")


def add_rows(work: Callable[[str], dict[str, Any]], names: Sequence[str], part: str, record: bool) -> bool:
    """Apply the work to each network and store its row in the record. Returns: False if a network failed."""
    good = True
    for name in names:
        try:
            row = work(name)
        except (MavcgError, RuntimeError) as error:
            row = {"why": str(error).splitlines()[0][:300], "ok": False}
        good = good and row.get("ok", True)
        print(f"{name}: {in_short(row)}", flush=True)
        if record:
            about = facts("measured", f"bench.{NAME} --record")
            about["machines"] = {
                **measured_or_none(NAME).get("machines", {}),
                part: {k: about[k] for k in ("date", "load_average")},
            }
            rows = {**measured_or_none(NAME).get("rows", {})}
            rows[name] = {**rows.get(name, {}), **row}
            write(
                NAME,
                {**about, "board": BOARD, "paper_hottest": PAPER, "rows": {n: rows[n] for n in NETWORKS if n in rows}},
            )
    return good


def in_short(row: Mapping[str, Any]) -> str:
    """Return a row as one line of text."""
    parts = []
    if "why" in row and row["why"]:
        parts.append(row["why"])
    if row.get("error") is not None:
        parts.append(f"{row['error']:.2g} {row['unit']} from {row['against']}, {row['macs'] / 1e6:.0f} million MACs")
    if "profile" in row:
        parts.append(f"{GEMM} {row['profile']['shares'][GEMM]:.1%}, hottest {row['profile']['hottest_share']:.1%}")
    if "arm" in row:
        parts.append(
            ", ".join(f"{core} {on['shares'][GEMM]:.1%} of {on['ms']:.1f} ms" for core, on in row["arm"].items())
        )
    if "times" in row:
        parts.append(", ".join(f"{k} {v['ms']:.1f} ms" for k, v in row["times"]["runtimes"].items() if "ms" in v))
    return "; ".join(parts)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"of {', '.join(NETWORKS)}; all where none")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--arm", action="store_true", help=f"model shares on {BOARD}")
    what.add_argument("--times", action="store_true", help="time them beside onnxruntime")
    what.add_argument("--chart", type=Path, metavar="FILE", help="draw the record; no more")
    parser.add_argument("--record", action="store_true", help=f"into bench/results/{NAME}.json")
    arguments = parser.parse_args()
    for name in arguments.networks:
        if name not in NETWORKS:
            sys.exit(f"bench.{NAME}: {name}: there is no such network; there are {', '.join(NETWORKS)}")
    if arguments.chart:
        chart(measured(NAME)["rows"], arguments.chart)
        return
    work, part = (on_arm, "arm") if arguments.arm else (timed, "times") if arguments.times else (built, "built")
    sys.exit(0 if add_rows(work, arguments.networks or list(NETWORKS), part, arguments.record) else 1)


if __name__ == "__main__":
    main()
