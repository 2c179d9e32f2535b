"""Markdown tables of the records of the model pipeline; bench/tables.py prints them."""

import collections
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench.peer_rows import cells, geometric_mean

Record = Mapping[str, Any]
Table = Callable[[Sequence[str], Sequence[Sequence[object]]], str]

THROUGH = {
    "kernels": "kernels compiled in memory",
    "library": "libraries as `mavcg build` makes them",
    "reference": "the definitions in NumPy",
}


def peers(record: Record, table: Table) -> str:
    """Return the table of whole networks beside the other runtimes, with one thread and two."""
    rows = record["rows"]
    parts = [peers_in_brief(record, table), "All runtimes; medians of each round's median."]
    for threads in sorted({row["threads"] for row in rows}):
        head, lines, notes = cells([row for row in rows if row["threads"] == threads], record["runtimes"])
        parts += [f"{threads} thread{'s' * (threads > 1)}:", table(head, lines), *notes]
    return "\n\n".join(parts)


def peers_in_brief(record: Record, table: Table) -> str:
    """Return the table of whole networks beside the fastest other runtime, one line for each network."""
    rows = record["rows"]
    counts = sorted({row["threads"] for row in rows})
    head, lines = ["network"], []
    for threads in counts:
        head += [f"{threads} thread{'s' * (threads > 1)}, ms", "fastest other, ms", "mavcg / it", "over the rounds"]
    for network in dict.fromkeys(row["network"] for row in rows):
        line = [network.removesuffix("-random")]
        for threads in counts:
            row = next(row for row in rows if (row["network"], row["threads"]) == (network, threads))
            line += _beside(row)
        lines.append(line)
    means = [geometric_mean([row for row in rows if row["threads"] == threads]) for threads in counts]
    last = ["geometric mean"]
    for mean in means:
        last += ["", "", f"{mean:.2f}" if mean is not None else "", ""]
    lines.insert(sum(row["counts"] for row in rows) // len(counts), last)
    text = (
        f"Measured: milliseconds a picture, in {rows[0]['rounds']} interleaved rounds, in which {_named(record)} took "
    )
    text += "part; below 1 mavcg is faster than the fastest of the others whose output is the same."
    return f"{text}\n\n" + table(head, lines)


def _beside(row: Record) -> list[str]:
    """Return the cells of one comparison: mavcg's time, the fastest other's, their ratio and its range.

    Blank if none is comparable.
    """
    ours, fastest = row["runtimes"]["mavcg"].get("ms"), row.get("fastest")
    if ours is None or fastest is None:
        return [f"{ours:.2f}" if ours is not None else "", "", "", ""]
    return [
        f"{ours:.2f}",
        f"{row['runtimes'][fastest]['ms']:.2f} ({fastest})",
        f"{row['ratio']:.2f}",
        f"{row['ratio_low']:.2f} to {row['ratio_high']:.2f}",
    ]


def _named(record: Record) -> str:
    """Return the runtimes with their versions."""
    version_of = {
        n: entry["version"] for row in record["rows"] for n, entry in row["runtimes"].items() if "version" in entry
    }
    return ", ".join(f"{name} {version}" for name, version in version_of.items())


def before(record: Record, table: Table) -> str:
    """Return the table of networks by today's mavcg over an earlier one."""
    rows = [
        [
            row["network"],
            str(row["threads"]),
            f"{row['now_ms']:.2f}",
            f"{row['then_ms']:.2f}",
            f"{row['ratio']:.3f}",
            f"{row['quartiles'][0]:.3f} to {row['quartiles'][1]:.3f}",
        ]
        for row in record["rows"]
    ]
    text = (
        f"Measured: milliseconds by this state of mavcg and by commit {record['then']}, interleaved; the ratio is now "
    )
    text += f"over then, the median of the rounds' ratios. Geometric mean: {record['mean']:.3f}."
    return f"{text}\n\n" + table(["network", "threads", "now", "then", "now / then", "quartiles"], rows)


def conv_layers(record: Record, table: Table) -> str:
    """Return the table of layers and products beside the core's peak."""
    rows = [
        [row["name"], f"{row['gflops']:.1f}", f"{row['peak_gflops']:.1f}", f"{100 * row['share']:.0f} %"]
        for row in record["rows"]
    ]
    text = "Measured: GFLOP/s of one thread, interleaved with a loop of independent multiply-adds, the peak; upper "
    text += "quartiles of the rounds."
    return f"{text}\n\n" + table(["layer or product", "GFLOP/s", "peak", "share"], rows)


def winograd(record: Record, table: Table) -> str:
    """Return the table of Winograd's algorithms beside the implicit product."""
    algorithms = list(record["rows"][0]["gflops"])
    rows = [
        [
            row["name"],
            *(f"{row['gflops'][algorithm]:.0f}" for algorithm in algorithms),
            row["best"],
            f"{row['gain']:.2f}",
        ]
        for row in record["rows"]
    ]
    text = "Measured: GFLOP/s of one thread, a multiply-add being two, counted as in the definition: algorithms "
    text += "with fewer multiplications may exceed the peak. Gain: best algorithm over the implicit product."
    return f"{text}\n\n" + table(["layer", *algorithms, "best", "gain"], rows)


def gemm_peers(record: Record, table: Table) -> str:
    """Return the table of products beside other libraries."""
    names = list(dict.fromkeys(name for row in record["rows"] for name in row["gflops"]))
    rows = [
        [
            f"{row['m']}, {row['n']}, {row['k']}",
            *(f"{row['gflops'][name]:.1f}" if name in row["gflops"] else "" for name in names),
            f"{row['peak_gflops']:.1f}",
            f"{row['over_best']:.2f} ({row['best_peer']})",
        ]
        for row in record["rows"]
    ]
    peers = ", ".join(f"{name} {number}" for name, number in record["peers"].items())
    text = f"Measured: GFLOP/s of one thread, the right side constant; {peers}. By the first deciles of the times of "
    text += f"{record['rows'][0]['rounds']} interleaved rounds. Reading: as if a product took as long as a loop that "
    text += "only reads its right side."
    return f"{text}\n\n" + table(["M, N, K", *names, "peak", "mavcg over the best peer"], rows)


def model_accuracy(record: Record, table: Table) -> str:
    """Return the table of differences from other runtimes."""
    rows = [
        [
            row["model"],
            row["against"] or row["why"],
            _difference(row),
            {True: "same", False: "differ", None: ""}[row["top"]],
            "yes" if row["ok"] else "no",
        ]
        for row in record["rows"]
    ]
    bounds = record["bounds"]
    text = f"Measured, on seeded inputs. Bounds: f32 {bounds['f32_of_the_largest']:g} of the largest element and the "
    text += f"same first five; 8-bit {bounds['int8_quanta']:g} quantum of the output and the same first. In brackets: "
    text += "how far onnxruntime without its optimisations is from onnxruntime with them."
    head = ["model", "against", "largest difference", "first five (8-bit: one)", "within bounds"]
    return f"{text}\n\n" + table(head, rows)


def _difference(row: Record) -> str:
    if row["error"] is None:
        return ""
    difference = row.get("reference_apart")
    return f"{row['error']:.2g} {row['unit']}" + (f" ({difference:.2g})" if difference is not None else "")


def model_build(record: Record, table: Table) -> str:
    """Return the table of builds' seconds and bytes, and of the first run."""
    rows = [
        [
            row["model"],
            f"{row['wall_s']:.1f} ({row['cpu_s']:.1f})",
            f"{row['host_wall_s']:.1f} ({row['host_cpu_s']:.1f})" if "host_wall_s" in row else "",
            f"{row['weight_bytes'] / 1e6:.2f}",
            f"{(row['library_bytes'] - row['weight_bytes']) / 1e6:.2f}",
            row["kernels"],
            f"{row['first_over_later']:.2f}",
        ]
        for row in record["rows"]
    ]
    text = (
        f"Measured: `mavcg build --board {record['board']} --jobs {record['jobs']}`, nothing kept of earlier builds; "
    )
    text += "the first run in a new process is of the same model built for this machine."
    head = [
        "model",
        "seconds (of CPU)",
        "for this machine",
        "weights, MB",
        "rest of the library, MB",
        "kernels",
        "first run / later",
    ]
    return f"{text}\n\n" + table(head, rows)


def onnx_node_tests(record: Record, table: Table) -> str:
    """Return the table of ONNX's node tests: counts, and every failure with its reason."""
    counts = record["counts"]
    through = record["command"].rpartition("--by ")[2]
    row = [
        THROUGH.get(through, through),
        counts["passed"],
        counts["passed with constants"],
        counts["failed"],
        counts["out of scope"],
    ]
    head = ["through", "passed", "of these, with inputs made constants", "failed", "out of scope"]
    failed = [f"- {test['name']}: {test['reason']}" for test in record["tests"] if test["status"] == "failed"]
    text = (
        f"Counted: the backend node tests of onnx {record['onnx']}. Out of scope is what the importer refuses by name."
    )
    return "\n".join([f"{text}\n", table(head, [row]), *(["\nFailed:\n", *failed] if failed else [])])


def caffe_networks(record: Record, table: Table) -> str:
    """Return the table of networks from Caffe's files, built and compared with OpenCV."""
    rows = [
        [
            row["network"],
            row["layers"] - 1,
            row["products"],
            f"{row['parameters']:,}",
            f"{row['largest_output']:.3f}",
            f"{row['largest_difference']:.1e}",
            "yes" if row["same_class"] else "no",
        ]
        for row in record["networks"]
    ]
    head = [
        "network",
        "layers",
        "with weights",
        "weights and biases",
        "largest output",
        "largest difference",
        "same class",
    ]
    text = (
        "Counted: the networks of the CGO 2018 paper as a prototxt and a caffemodel of seeded weights, built by `mavcg "
        f"build --board host`, one image, beside OpenCV {record['opencv']} on the same two files. Outputs are softmax."
    )
    return f"{text}\n\n" + table(head, rows)


def drop_in_times(record: Record, table: Table) -> str:
    """Return the table of partial builds: why a whole build refuses the file, share of work, times and their ratio."""
    text = (
        "Measured, one thread on one CPU, interleaved sessions: models that a whole-model build refused when partial "
        "builds began. Ratio: median of rounds, with the library over without; below 1 it is a gain. -: the runtime "
        "cannot run the model by itself, or nothing in it can be built."
    )
    head = ["file", "refused whole for", "share of MACs", "with, ms", "without, ms", "ratio", "difference"]
    lines = []
    for row in record["rows"]:
        share = "-" if row["macs_share"] is None else f"{row['macs_share']:.1%}"
        times = ["-" if row[key] is None else f"{row[key]:.3g}" for key in ("with_ms", "without_ms", "ratio")]
        error = "-" if row["error"] is None else f"{row['error']:.0e}"
        why = row["whole"].partition(": there is nothing")[0] or "taken whole today"
        lines.append([f"{row['file']} ({row['package'].partition('==')[0]})", why, share, *times, error])
    return f"{text}\n\n" + table(head, lines)


def drop_in_survey(record: Record, table: Table) -> str:
    """Return the table of real files by result; for partial builds, the share of multiply-accumulates and the rest."""
    rows = record["rows"]
    counts = collections.Counter(row["result"] for row in rows)
    text = (
        f"Counted: {len(rows)} files of {len({row['package'] for row in rows})} packages; {counts['whole']} pass all "
        f"stages whole, {counts['partial']} in part, {counts['refused']} not at all. Difference: with the library "
        "against the runtime alone, of the largest element of an output, on seeded inputs; -: the runtime cannot run "
        "the file by itself. Multiply-accumulates within control flow are not counted; numbers before a dynamic "
        "quantisation differ after it by a step."
    )
    head = ["file", "refused whole for", "subgraphs", "MMACs", "share of MACs", "nodes that stay", "difference"]
    lines = []
    for row in rows:
        if row["result"] == "whole":
            continue
        stay = sum(count for _, count in row["left"])
        share = "-" if row["macs_share"] is None else f"{row['macs_share']:.1%}"
        error = "-" if row["error"] is None else f"{row['error']:.0e}"
        why = row["why"].partition(": there is nothing")[0]
        numbers = [row["subgraphs"], f"{row['macs'] / 1e6:.1f}", share, stay, error]
        lines.append([f"{row['file']} ({row['package'].partition('==')[0]})", why, *numbers])
    whole = ", ".join(
        f"{row['file']} ({row['package'].partition('==')[0]})" for row in rows if row["result"] == "whole"
    )
    return f"{text}\n\n" + table(head, lines) + "\n\n" + textwrap.fill(f"Whole: {whole}.", 118, break_on_hyphens=False)


def survey(record: Record, table: Table) -> str:
    """Return the table of strangers' files: what a build makes of them, how near to their runtime, times beside it."""
    rows = record["rows"]
    counts = collections.Counter(row["result"] for row in rows)
    timed = any(row["ratio"] is not None for row in rows)
    left = f", and {counts['not run']} were not reached in the time" if counts["not run"] else ""
    text = (
        f"{record['kind'].capitalize()}: {len(rows)} files of {len({row['package'] for row in rows})} packages; "
        f"{counts['whole']} are built whole, {counts['partial']} in part, {counts['refused'] + counts['died']} not at "
        f"all{left}. Difference: from onnxruntime or LiteRT alone, of the largest element of an output, on seeded "
        "inputs; numbers after a dynamic quantisation differ by a step of it."
    )
    if timed:
        text += " Times: one thread, interleaved, medians; ratio below 1: mavcg takes less."
    head = ["file", "package", "result", "share of MACs", "difference", *(["ms", "its runtime, ms", "ratio"] * timed)]
    lines = []
    for row in rows:
        share = "" if row["share"] is None else f"{row['share']:.0%}"
        error = row["note"][:60].rstrip() if row["error"] is None else f"{row['error']:.0e}"
        result = row["result"] + (f": {row['why']}" if row["why"] else "")
        times = ["" if row[key] is None else f"{row[key]:.3g}" for key in ("ours_ms", "theirs_ms", "ratio")]
        package = re.split("==|@", row["package"])[0]
        lines.append([row["file"].rpartition("/")[2], package, result, share, error, *(times * timed)])
    lines.append(
        ["all", "", f"{counts['whole']} whole, {counts['partial']} in part of {len(rows)}", "", "", *([""] * 3 * timed)]
    )
    return f"{text}\n\n" + table(head, lines)


def fuzz_models(record: Record, table: Table) -> str:
    """Return the table of damaged files, by result."""
    counts = record["counts"]
    text = (
        f"Counted: {record['files']} files made by damaging {record['seeds']} good ones, each as far as kernels. The "
    )
    text += f"longest took {record['longest_s']:.1f} s; no process had more than {record['peak_bytes'] / 1e6:.0f} MB."
    return f"{text}\n\n" + table(list(counts), [list(counts.values())])


def differential(record: Record, table: Table) -> str:
    """Return the tables of random graphs by verdict, and of differences by class."""
    counts = record["counts"]
    head = ["same", "explained", "different", "crash", "hang", "refused", "skipped"]
    formats = ", ".join(f"{name} {count}" for name, count in record["formats"].items())
    types = ", ".join(f"{name} {count}" for name, count in record["types"].items())
    versions = ", ".join(f"{name} {count}" for name, count in record["graphs_by_version"].items())
    text = (
        f"Counted: {record['graphs']} random graphs of {len(record['operators'])} operators ({formats}) in opsets "
        f"{record['opsets'][0]} to {record['opsets'][-1]}, a third of them with NaN, infinities, denormal and huge "
        "numbers; many in one library, with guard pages around every input and output. Float types: "
        f"{types}. Graphs run by version, whose bits are the same: {versions}. Refused: by the importer, by name; "
        "skipped: the other runtime does not run it. The operators' page explains the classes.\n\n"
    )
    classes: collections.Counter[str] = collections.Counter()
    for reason, number in record["explained"].items():
        classes[reason.split("+")[0]] += number
    rows = [[reason, number] for reason, number in classes.most_common()]
    counted = table(head, [[counts.get(name, 0) for name in head]])
    return f"{text}{counted}\n\n" + table(["explained by (its first operator)", "graphs"], rows)


def chains(record: Record, table: Table) -> str:
    """Return the table of chains of operators by verdict and date, and the last run's differences by class."""
    last = record["last"]
    listed = {
        key: ", ".join(f"{name} {count}" for name, count in last[key].items())
        for key in ("formats", "types", "versions")
    }
    share = last["undetermined"] / max(1, last["elements"])
    text = (
        "Counted: random graphs that chain 2 to 30 operators, each with a verdict by onnxruntime without optimisation "
        f"or LiteRT, and NumPy in double precision. The last run: {last['nodes']} nodes of {last['operators']} "
        f"operators, {last['median_nodes']} in the median chain; {listed['formats']}; types of inputs: "
        f"{listed['types']}. Chains by version: {listed['versions']}. Of {last['elements']} elements of outputs "
        f"{share:.1%} have no finite bound. The operators' page says what the classes are."
    )
    counted = table(record["head"], record["rows"])
    classes = [[reason, number] for reason, number in list(last["explained"].items())[:60]]
    return f"{text}\n\n{counted}\n\n" + table(["explained by", "chains"], classes)


def fuzz_targets(record: Record, table: Table) -> str:
    """Return the table of executions and coverage of each fuzz target."""
    rows = [
        [
            row["target"],
            row["executions"],
            row["edges"],
            f"{row['reached']} of {row['lines']}" if row["lines"] else "-",
            row["corpus"],
            int(bool(row["fault"])),
        ]
        for row in record["targets"]
    ]
    of_c = any(row["language"] == "C" for row in record["targets"])
    text = "Counted by libFuzzer, " + ("with the address and undefined-behaviour sanitizers; " if of_c else "")
    text += "edges: of the code that was reached; lines: of the readers of fuzz/readers.toml, by the inputs kept."
    return f"{text}\n\n" + table(["target", "executions", "edges", "lines reached", "inputs kept", "faults"], rows)


def injected_failures(record: Record, table: Table) -> str:
    """Return the table of failures injected by operation and call, and what came of them."""
    columns = ("tried", "right", "refused", "wrong")
    sums: dict[tuple[str, str], collections.Counter[str]] = {}
    for row in record["rows"]:
        for names in ((row["operation"], row["call"]), ("total", "all")):
            sums.setdefault(names, collections.Counter()).update({column: row[column] for column in columns})
    rows = [[*names, *(sums[names][column] for column in columns)] for names in sorted(sums)]
    text = (
        f"Counted: {sum(row['tried'] for row in record['rows'])} failures, the first, second, .. call of each kind, "
        "alone and with all that follow, by each error. C with the address and undefined-behaviour sanitizers. Right: "
        "the result; refused: with a documented status and nothing left behind."
    )
    return f"{text}\n\n" + table(["operation", "call", *columns], rows)


TABLES: Mapping[str, tuple[str, Callable[[Record, Table], str]]] = {
    "peers": ("Networks against other runtimes", peers),
    "peers_amx": ("Networks against other runtimes on a processor with AMX", peers),
    "before": ("Networks beside an earlier state of mavcg", before),
    "conv_layers": ("Layers and products beside the peak", conv_layers),
    "winograd": ("Winograd's convolutions beside the implicit product", winograd),
    "gemm_peers": ("Products beside other libraries", gemm_peers),
    "model_accuracy": ("How near to other runtimes", model_accuracy),
    "caffe_networks": ("Caffe's networks beside OpenCV", caffe_networks),
    "model_build": ("How long a model's build takes, and its library", model_build),
    "onnx_node_tests": ("ONNX's node tests", onnx_node_tests),
    "onnx_node_tests_library": ("ONNX's node tests through libraries", onnx_node_tests),
    "drop_in_survey": ("Real files, whole and in part", drop_in_survey),
    "survey": ("Files of strangers", survey),
    "drop_in_times": ("Real files in their runtimes, with a partial library and without", drop_in_times),
    "fuzz_models": ("Damaged model files", fuzz_models),
    "injected_failures": ("Failures injected by number", injected_failures),
    "fuzz_c_targets": ("Coverage-guided fuzzing of the C", fuzz_targets),
    "differential": ("Random graphs against onnxruntime", differential),
    "chains": ("Chains of operators against three judges", chains),
    "fuzz_targets": ("Coverage-guided fuzzing", fuzz_targets),
}
