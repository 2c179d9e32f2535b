"""Markdown tables of the records that repeat tables of Park's thesis."""

from collections.abc import Sequence

from bench.paper_names import NETWORKS, group_of
from bench.tables.markdown import Record, Tables, table
from mavcg.program.profiling.function_classes import DEPTHWISE, GEMM


def paper_networks(record: Record) -> str:
    """Return the table of the thesis's networks: size, distance from onnxruntime, share of GEMM."""
    cores = list(next((row["arm"] for row in record["rows"].values() if "arm" in row), {}))
    rows = [_row(name, record["rows"][name], cores) for name in NETWORKS if name in record["rows"]]
    for group, words in (("f32", "mean of f32"), ("8-bit", "mean of 8-bit"), ("encoder", "mean of encoders")):
        of = [row for name, row in record["rows"].items() if group_of(name) == group]
        cells = ["", "", ""]
        cells += [
            _mean([r["profile"][k] if k else r["profile"]["shares"][GEMM] for r in of if "profile" in r])
            for k in ("", "hottest_share")
        ]
        cells += [_mean([r["arm"][core]["shares"][GEMM] for r in of if "arm" in r]) for core in cores]
        rows.append([words, *cells, ""])
    paper = record["paper_hottest"]
    text = (
        "Measured: shares of the library's own time by perf, one thread, while other programs kept the machine busy; "
        f"modelled: shares of the time on the cores of {record['board']}, one thread. `{GEMM}` has bias, residual and "
        f"activation inside; `{DEPTHWISE}` is apart. Results beside onnxruntime: the largest difference, f32 over the "
        "largest element, 8-bit in quanta of the output. In the thesis (figure 2.1, TensorFlow Lite on an Exynos 9820) "
        f"the hottest function alone has {paper['f32']:.0%} of the time in f32 and {paper['8-bit']:.0%} in 8 bits: "
        "there one function is all products, here each layer's shape is a kernel of its own, so that the class is what "
        "compares. All weights but MobileNet v2's are drawn; topologies are the published ones, those of the encoders "
        "written here."
    )
    head = [
        "network",
        "million MACs",
        "million parameters",
        "from onnxruntime",
        "GEMM/conv, measured",
        "hottest kernel",
    ]
    return f"{text}\n\n" + table([*head, *(f"{core}, modelled" for core in cores), "depthwise, measured"], rows)


def _row(name: str, row: Record, cores: Sequence[str]) -> list[object]:
    if "macs" not in row:
        return [name, "", "", row["why"], *[""] * (3 + len(cores))]
    unit = {"quanta": " quanta"}.get(row["unit"], "")
    shares = row.get("profile", {"shares": {}})
    arm = [f"{row['arm'][core]['shares'][GEMM]:.0%}" if "arm" in row else "" for core in cores]
    return [
        name,
        f"{row['macs'] / 1e6:,.0f}",
        f"{row['parameters'] / 1e6:.1f}",
        f"{row['error']:.1g}{unit}",
        f"{shares['shares'][GEMM]:.0%}",
        f"{shares['hottest_share']:.0%}",
        *arm,
        f"{shares['shares'][DEPTHWISE]:.0%}",
    ]


def _mean(values: Sequence[float]) -> str:
    return f"{sum(values) / len(values):.0%}" if values else ""


def mcpu_sweep(record: Record) -> str:
    """Return the table of each core's code on each core, over clang's generic code there."""
    cores, parts = record["cores"], []
    words = {
        "clang": "clang's, `-mcpu=X` alone",
        "mavcg": "mavcg's: the machine passes that X's profile asks for behind it",
        "gcc": f"gcc's ({record['gcc']})",
    }
    for compiler, lines in record["speed_over_generic"].items():
        rows = [
            [version, *(f"{line[core]:.2f}" if core in line else "" for core in cores)]
            for version, line in lines.items()
        ]
        parts.append(f"{words[compiler]}:\n\n" + table(["version for X", *(f"on {core}" for core in cores)], rows))
    if "gcc" not in record["speed_over_generic"]:
        parts.append(f"gcc: {record['gcc']}.")
    text = (
        f"Modelled: speed of the main loops of {len(record['kernels'])} f32 kernels ({', '.join(record['kernels'])}) "
        "over clang's `-mcpu=generic` on the same core, geometric means; no Arm core ran anything, and the models of "
        "out-of-order cores see little of what a compiler's order changes. In the thesis (figure 2.2, measured, whole "
        "networks) code for exynos-m2 is 1.126 times as fast on an exynos-m2 and 0.862 times on a cortex-a53, and "
        "(figure 4.3) `-mcpu` brings 3.0 % on a cortex-a55 and 2.9 % on a cortex-a75, with load splitting 11.2 and "
        "17.9 %; clang is 1.47 % faster than gcc 8.2 on the former and 9.49 % on the latter (figure 4.4). Code for "
        "exynos-m2 is what LLVM has for exynos-m3: it knows no other."
    )
    return "\n\n".join([text, *parts])


def mcpu_sweep_host(record: Record) -> str:
    """Return the table of the same sweep on this machine, for kernels that ran."""
    compilers = list(dict.fromkeys(compiler for row in record["rows"] for compiler in row["ways"]))
    rows = [
        [compiler, *(f"{r['ways'][compiler]['speed_over_generic']:.2f}" for r in record["rows"])]
        for compiler in compilers
    ]
    text = (
        f"Measured: speed over clang's plain x86-64 code by the least processor time of {record['rounds']} interleaved "
        f"rounds, one CPU, at a load of {record['load_average']:.0f}: other programs shared its caches. A core that is "
        "not listed has instructions that this machine lacks, or the compiler does not know it."
    )
    return f"{text}\n\n" + table(["compiler and core", *(r["kernel"] for r in record["rows"])], rows)


def plan_run(record: Record) -> str:
    """Return the table of plans run on this machine: the thesis's search beside fixed policies."""
    planners = list(record["rows"][0]["seconds"])
    rows = []
    for row in record["rows"]:
        seconds = [f"{row['seconds'][planner]:.3f} ({row['moved_mib'][planner]:.0f})" for planner in planners]
        speedups = ", ".join(f"{value:.2f}" for value in row["speedup"].values())
        paper = row["paper_mean_of_the_three"]
        rows.append([f"{row['network']}, {row['setup']}", row["runtime"], *seconds, speedups, paper or ""])
    text = (
        "Measured at a load of "
        f"{record['load_average']:.0f}: least processor seconds of {record['rounds']} runs of whole networks as C, one "
        "thread, and in brackets MiB that the plans copy. The speed-ups are of the thesis' search (e-planner) over "
        "zhang, ma and smart-shuttle; the thesis' mean over the three (table 8.4) is measured on a Jetson TX2's GPU. "
        "Below 1 the thesis' search loses, as it does here: plain loops take most of the time and copies little of it. "
        "How long a tile's innermost rows are may decide, which no planner's model has; that was not measured."
    )
    head = ["network, setup", "operators", *planners, "speed-ups", "thesis"]
    return f"{text}\n\n" + table(head, rows)


TABLES: Tables = {
    "paper_networks": ("Networks of Park's thesis and their share of GEMM", paper_networks),
    "plan_run": ("Plans run on this machine", plan_run),
    "mcpu_sweep": ("Code for every core on every core of Arm", mcpu_sweep),
    "mcpu_sweep_host": ("Code for every core on this machine", mcpu_sweep_host),
}
