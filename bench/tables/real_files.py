"""Tables of others' models: results beside their runtimes, builds whole and in part, ONNX's node tests."""

import collections
import re
import textwrap

from bench.tables.markdown import Record, Tables, table

THROUGH = {
    "kernels": "kernels compiled in memory",
    "library": "libraries as `mavcg build` makes them",
    "reference": "the definitions in NumPy",
}


def model_accuracy(record: Record) -> str:
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


def model_build(record: Record) -> str:
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


def onnx_node_tests(record: Record) -> str:
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


def caffe_networks(record: Record) -> str:
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


def drop_in_times(record: Record) -> str:
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


def drop_in_survey(record: Record) -> str:
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


def survey(record: Record) -> str:
    """Return the table of strangers' files: what a build makes of them, how near to their runtime, times beside it."""
    rows = record["rows"]
    counts = collections.Counter(row["result"] for row in rows)
    timed = any(row["ratio"] is not None for row in rows)
    left = f", and {counts['not run']} were not reached in the time" if counts["not run"] else ""
    text = (
        f"{record['kind'].capitalize()}: {len(rows)} files of {len({row['package'] for row in rows})} packages; "
        f"{counts['whole']} are built whole, {counts['partial']} in part, {counts['refused'] + counts['died']} not at "
        f"all{left}. Difference: from onnxruntime or LiteRT alone, of the largest element of an output, on seeded "
        "inputs; where it is over 1e-5, that of both from the same file computed in double precision."
    )
    if timed:
        text += " Times: one thread, interleaved, medians; ratio below 1: mavcg takes less."
    judged = ["difference", "mavcg from exact", "its runtime from exact"]
    head = ["file", "package", "result", "share of MACs", *judged, *(["ms", "its runtime, ms", "ratio"] * timed)]
    lines = []
    for row in rows:
        share = "" if row["share"] is None else f"{row['share']:.0%}"
        error = row["note"][:60].rstrip() if row["error"] is None else f"{row['error']:.0e}"
        exact = ("" if row[key] is None else f"{row[key]:.0e}" for key in ("ours_exact", "theirs_exact"))
        result = row["result"] + (f": {row['why']}" if row["why"] else "")
        times = ["" if row[key] is None else f"{row[key]:.3g}" for key in ("ours_ms", "theirs_ms", "ratio")]
        package = re.split("==|@", row["package"])[0]
        lines.append([row["file"].rpartition("/")[2], package, result, share, error, *exact, *(times * timed)])
    totals = f"{counts['whole']} whole, {counts['partial']} in part of {len(rows)}"
    lines.append(["all", "", totals, *[""] * (len(head) - 3)])
    return f"{text}\n\n" + table(head, lines)


TABLES: Tables = {
    "model_accuracy": ("How near to other runtimes", model_accuracy),
    "caffe_networks": ("Caffe's networks beside OpenCV", caffe_networks),
    "model_build": ("How long a model's build takes, and its library", model_build),
    "onnx_node_tests": ("ONNX's node tests", onnx_node_tests),
    "onnx_node_tests_library": ("ONNX's node tests through libraries", onnx_node_tests),
    "drop_in_survey": ("Real files, whole and in part", drop_in_survey),
    "survey": ("Files of strangers", survey),
    "drop_in_times": ("Real files in their runtimes, with a partial library and without", drop_in_times),
}
