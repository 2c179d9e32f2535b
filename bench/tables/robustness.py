"""Tables of tests by random and damaged inputs: graphs, chains, files, fuzzing, injected failures."""

import collections

from bench.tables.markdown import Record, Tables, table

FUZZ_TARGETS = ("target", "executions", "edges", "lines reached", "inputs kept", "faults")
FUZZ_RUNS = ("date", "commit", "executions", "faults")
INJECTED = ("operation", "calls that failed", "reached", "tried", "right", "refused", "wrong", "date", "commit")


def fuzz_models(record: Record) -> str:
    """Return the table of damaged files, by result."""
    counts = record["counts"]
    text = (
        f"Counted: {record['files']} files made by damaging {record['seeds']} good ones, each as far as kernels. The "
    )
    text += f"longest took {record['longest_s']:.1f} s; no process had more than {record['peak_bytes'] / 1e6:.0f} MB."
    return f"{text}\n\n" + table(list(counts), [list(counts.values())])


def differential(record: Record) -> str:
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


def chains(record: Record) -> str:
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


def fuzz_targets(record: Record) -> str:
    """Return the tables of executions and coverage of each fuzz target, and of runs by date."""
    sanitizers = ", with the address and undefined-behaviour sanitizers" if record["language"] == "C" else ""
    text = (
        f"Counted by libFuzzer{sanitizers}. Executions: of all runs; all else of a target's last run. Edges: of the "
        "code that was reached; lines: of the readers of fuzz/readers.toml, by the inputs kept."
    )
    return f"{text}\n\n" + table(FUZZ_TARGETS, record["targets"]) + "\n\n" + table(FUZZ_RUNS, record["runs"])


def injected_failures(record: Record) -> str:
    """Return the table of failures injected by operation, and what came of them."""
    rows = record["operations"]
    total = [sum(int(row[at]) for row in rows) for at in (3, 4, 5, 6)]
    text = (
        f"Counted: {total[0]} failures, the first, second, .. call of each kind, alone and with all that follow, by "
        "each error. C with the address and undefined-behaviour sanitizers. Right: the result; refused: with a "
        "documented status and nothing left behind. Reached: the numbers of calls that failed before the time was over."
    )
    return f"{text}\n\n" + table(INJECTED, [*rows, ["total", "", "", *total, "", ""]])


TABLES: Tables = {
    "fuzz_models": ("Damaged model files", fuzz_models),
    "injected_failures": ("Failures injected by number", injected_failures),
    "fuzz_c_targets": ("Coverage-guided fuzzing of the C", fuzz_targets),
    "differential": ("Random graphs against onnxruntime", differential),
    "chains": ("Chains of operators against three judges", chains),
    "fuzz_targets": ("Coverage-guided fuzzing", fuzz_targets),
}
