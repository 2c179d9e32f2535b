"""Tables of multi-versioned programs: speed of versions, what choosing one costs, growth, builds."""

import platform
import statistics

from bench.tables.markdown import Record, Tables, table

# Kinds of calls that bench/dispatch.py times.
WORDS = {
    "direct_generated": "direct call of the built version",
    "generated": "dispatcher that mavcg built",
    "direct": "direct call of the version",
    "dispatched": "dispatcher in C",
    "runtime_select": "the runtime's select, called each time",
    "system_call": "getcpu system call each time",
    "trapping_register": "CPUID 1AH each time" if platform.machine() == "x86_64" else "mrs MIDR_EL1 each time",
}
_OVER = {"over generic": "speed_over_generic", "over gcc -O3": "speed_over_gcc_O3"}


def versions(record: Record) -> str:
    """Return the table of each implementation's speed over gcc -O3."""
    builds = list(record["rows"][0]["ways"])
    base = "speed_over_gcc_O3" if "gcc -O3" in builds else "speed_over_generic"
    rows = [
        [f"{row['kernel']} ({row['work']})", *(_speed(row["ways"][build], base) for build in builds)]
        for row in record["rows"]
    ]
    over = "gcc -O3" if base.endswith("O3") else "the generic version"
    text = (
        f"Measured: microseconds a call, and in brackets speed over {over}; medians of {record['rounds']} interleaved "
    )
    text += "rounds, the second of each round's ratio. `*`: other bits than the generic version."
    return f"{text}\n\n{table(['kernel', *builds], rows)}\n\n{table(['geometric mean of', *_OVER], [_means(record)])}"


def _means(record: Record) -> list[str]:
    """Return the row of the speed of this core's version: that of the first core of the machine."""
    cores = record["cores"]
    if not cores:
        return ["this core's version", *(["none: the core is not known"] * len(_OVER))]
    ways = [row["ways"][f"mavcg {cores[0]}"] for row in record["rows"]]
    means = [
        f"{statistics.geometric_mean(way[key] for way in ways):.2f}" if all(key in way for way in ways) else "no gcc"
        for key in _OVER.values()
    ]
    return ["this core's version", *means]


def _speed(build: Record, base: str) -> str:
    return f"{build['median_us']:.0f} ({build[base]:.2f}){'' if build['same_bits_as_generic'] else '*'}"


def dispatch(record: Record) -> str:
    """Return the table of the cost per call of selecting a version."""
    runs = record["runs"]
    head = ["selection", *(f"over a direct call, {'with' if run['rseq'] else 'without'} rseq" for run in runs)]
    kinds = [kind for kind in runs[0]["ways"] if not kind.startswith("direct")]
    rows = [
        [WORDS.get(kind, kind), *(f"{run['ways'][kind]['over_direct_ns']:.1f} ns" for run in runs)] for kind in kinds
    ]
    return f"Measured: medians of {runs[0]['rounds']} interleaved rounds.\n\n" + table(head, rows)


def growth(record: Record) -> str:
    """Return the table of code growth with six clones, for an application or for small programs."""
    shares = "shared_selector_bytes" in record
    head = ["program", "functions", "versions (bodies)", "library", "growth"]
    head += ["with a shared selector"] if shares else []
    rows = [
        [
            f"{row['program']}: {row['what']}",
            row["functions"],
            f"{row['versions']} ({row['bodies']})",
            f"{row['library_bytes'] / 1000:.0f} kB",
            f"{row['growth_percent']:.2f} %",
            *([f"{row['growth_with_shared_selector_percent']:.2f} %"] if shares else []),
            f"{row['growth_of_own_code_percent']:.2f} % of {row['own_code_bytes'] / 1000:.0f} kB",
        ]
        for row in record["rows"]
    ]
    head.append("of its own code")
    text = (
        f"Counted: {', '.join(record['cores'])} and generic, for {record['target']}, the run-time selector included. "
    )
    text += "Each library holds what it uses of libc++ too, where it is C++."
    if shares:
        text += f" A shared selector is there once for all libraries, with {record['shared_selector_bytes']} bytes."
    return f"{text}\n\n" + table(head, rows)


def build_time(record: Record) -> str:
    """Return the table of the seconds of `mavcg build`."""
    head = ["program", "sources", "functions", "versions", "mavcg build"]
    rows = [
        [row["program"], row["sources"], row["functions"], row["versions"], f"{row['median_s']:.1f} s"]
        for row in record["rows"]
    ]
    text = f"Measured: {', '.join(record['cores'])} and generic, {record['jobs']} compilers at a time on "
    text += f"{record['cpus_allowed']} CPUs, ziglang's own libraries built before."
    return f"{text}\n\n" + table(head, rows)


def launch_cost(record: Record) -> str:
    """Return the table of the CPU seconds of `mavcg launch`."""
    head = ["file", "compiler", "board", "compiler alone", "under mavcg launch", "ratio", "ratio by itself"]
    head += ["by the program of --program", "its ratio", "again", "ratio, again", "its ratio, again", "ratio, edited"]
    rows = [
        [
            row["file"],
            row["compiler"],
            row["board"],
            f"{row['plain_s']:.2f} s",
            f"{row['launch_s']:.2f} s",
            f"{row['launch_ratio']:.2f}",
            f"{row['itself_ratio']:.2f}",
            f"{row['program_s']:.2f} s",
            f"{row['program_ratio']:.2f}",
            f"{row['again_s']:.2f} s",
            f"{row['again_ratio']:.2f}",
            f"{row['program_again_ratio']:.2f}",
            f"{row['edited_ratio']:.2f}",
        ]
        for row in record["rows"]
    ]
    text = f"Measured: CPU time, user and system, of all processes, interleaved; medians of {record['rounds']} rounds, "
    text += "so that other load matters little. Versions and schedules are not in the cache, but when compiled again "
    text += (
        "by the same command, or edited: by another one whose code is the same. The resident process that the first "
    )
    text += "file of a build leaves is there, and counted, but where a command does its work by itself."
    return f"{text}\n\n" + table(head, rows)


TABLES: Tables = {
    "versions": ("A kernel's versions on this machine", versions),
    "dispatch": ("What choosing a version costs", dispatch),
    "growth": ("Code growth of six ARM clones", growth),
    "growth_app": ("Code growth of an application of TFLite's size", growth),
    "build_time": ("How long a build takes", build_time),
    "launch_cost": ("What mavcg launch adds to a compiler's CPU time", launch_cost),
}
