"""The verb `mavcg bench`: time a model library on this machine."""

from pathlib import Path
from typing import Annotated, Any

import typer

from mavcg.cli.bench_limit import check_limits, limits_of, show_limits
from mavcg.console.output import console, note, print_json
from mavcg.console.shared_options import JsonSame, ModelLibrary
from mavcg.errors import MavcgError


def bench(
    library: ModelLibrary,
    network: Annotated[
        str | None, typer.Option(metavar="N", help="For the library of an application: the network to time.")
    ] = None,
    threads: Annotated[
        str,
        typer.Option(
            metavar="1,2,..",
            help="Numbers of threads to time, with commas; auto or 0: the number that the library was planned for, "
            "else one for each CPU; default 1.",
        ),
    ] = "1",
    seconds: Annotated[
        float, typer.Option(min=0, help="Time to spend on each number of threads, in seconds; default 1.")
    ] = 1.0,
    min_runs: Annotated[
        int, typer.Option("--runs", min=1, help="Least number of runs with each number of threads; default 10.")
    ] = 10,
    per_layer: Annotated[bool, typer.Option("--per-layer", help="Also print the time of each step.")] = False,
    limit: Annotated[
        bool,
        typer.Option(
            "--limit",
            help="With --per-layer, which it implies: also print the least time of each layer on this machine, the "
            "larger of its arithmetic at the measured peak and of its bytes at the measured bandwidth.",
        ),
    ] = False,
    as_json: JsonSame = False,
) -> None:
    """Time a model library on random inputs: median, minimum, spread (interquartile range) and number of runs.

    Other programs that run at the same time make the times longer. If the network is a pipeline, its frames per second
    are measured too, beside those of single runs with 1 thread up to as many threads as all its stages have.

    \b
    mavcg bench libmobilenet_v2.so --threads 1,2
    mavcg bench libmobilenet_v2.so --threads auto
    mavcg bench libmobilenet_v2.so --per-layer
    mavcg bench libmobilenet_v2.so --per-layer --limit
    mavcg bench libmobilenet_v2.so --threads 1 --seconds 5 --json
    mavcg bench libapp.so --network detector
    """
    from mavcg.runtime.loading import AUTO
    from mavcg.runtime.timed_runs import parse_threads

    if limit:
        check_limits(library, network)  # before anything is timed
    try:
        counts = parse_threads(",".join("0" if part.strip() == AUTO else part for part in threads.split(",")))
    except ValueError as error:
        raise MavcgError(
            f"--threads {threads}: is not a list of thread counts; write it as in --threads 1,2 or --threads auto"
        ) from error
    pipeline = _pipeline_of(library, network, seconds)
    rows = [_time_threads(library, network, count, min_runs, seconds, per_layer or limit) for count in counts]
    if limit:
        for row in rows:
            row["limits"] = limits_of(library, network, row["threads"], row["layers"])
    if as_json:
        print_json({"library": str(library), "measured": rows} | ({"pipeline": pipeline} if pipeline else {}))
        return
    _show(rows)
    if pipeline is not None:
        _show_pipeline(pipeline)


def _time_threads(
    library: Path, network: str | None, count: int, min_runs: int, seconds: float, per_layer: bool
) -> dict[str, Any]:
    """Return the times of a network with a number of threads, as JSON has them. count: 0 for the library's choice."""
    from mavcg.runtime.application import open_network
    from mavcg.runtime.loading import AUTO
    from mavcg.runtime.random_inputs import random_inputs
    from mavcg.runtime.timed_runs import as_json as row_of
    from mavcg.runtime.timed_runs import begin_anew, time_runs

    if seconds > 1:
        note(f"timing {library.name} with {count or 'its choice of'} threads for {seconds:g} s")
    with open_network(library, network, count) as model:
        arrays = random_inputs(model, 0)
        times = time_runs(lambda: model.run(*arrays), 3, min_runs, seconds, lambda: begin_anew(model))
        row: dict[str, Any] = row_of(count or model.threads, times)
        if not count:
            row[AUTO] = True
        if per_layer:
            row["layers"] = _layers(library, network, model, arrays, max(5, min(50, len(times.ms))))
    return row


def _pipeline_of(library: Path, network: str | None, seconds: float) -> dict[str, Any] | None:
    """Measure the pipeline of a network beside its single runs; None if it is not a pipeline."""
    from mavcg.runtime.application import is_application, load_application
    from mavcg.runtime.random_inputs import random_inputs
    from mavcg.runtime.timed_runs import measure_pipeline

    if network is None or not is_application(library):
        return None
    with load_application(library) as application:
        if network not in application.networks or not application.stages(network):
            return None
        arrays = random_inputs(application[network], 0)
    return measure_pipeline(library, network, arrays, seconds)


def _show_pipeline(measured: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table(box=None)
    for name in ("", "threads", "frames/s", "spread"):
        table.add_column(name, justify="right" if name else "left")
    for row in (*measured["single"], measured["pipelined"]):
        kind = "single runs" if "stages" not in row else f"pipeline of {row['stages']} stages"
        threads = "+".join(map(str, row["threads"]))
        table.add_row(kind, threads, f"{row['per_second']:.1f}", f"{row['spread']:.1f}")
    console().print(table)
    console().print(
        f"the pipeline has {measured['ratio']:.3f} times the frames per second of the best single runs "
        "(interleaved measurement)"
    )


def _layers(library: Path, network: str | None, model: Any, arrays: list[Any], runs: int) -> list[dict[str, Any]]:
    """Return the median time of each step over some runs, in ms, in the order of the steps, with its primitive."""
    import statistics

    from mavcg.objects.inspection import network_of_library
    from mavcg.runtime.timed_runs import profile_after_run

    profiles = [profile_after_run(model, arrays).steps for _ in range(runs)]
    note = network_of_library(library, network) or {"steps": [{}] * len(profiles[0])}
    return [
        {"name": layer[0].name, "op": layer[0].op, "ms": round(statistics.median(s.ns for s in layer) / 1e6, 6)}
        | ({"primitive": step["primitive"]} if "primitive" in step else {})
        for layer, step in zip(zip(*profiles, strict=True), note["steps"], strict=True)
    ]


def _threads(row: dict[str, Any]) -> str:
    return f"{row['threads']} (auto)" if "auto" in row else str(row["threads"])


def _show(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    table = Table(box=None)
    for name in ("threads", "median ms", "min ms", "spread ms", "runs"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            _threads(row),
            f"{row['median_ms']:.3f}",
            f"{row['min_ms']:.3f}",
            f"{row['spread_ms']:.3f}",
            str(row["runs"]),
        )
    console().print(table)
    for row in rows:
        if "limits" in row:
            show_limits(row["limits"], _threads(row), console())
            continue
        if "layers" not in row:
            continue
        layers = Table(box=None, title=f"{_threads(row)} threads, by step", title_justify="left")
        for name in ("step", "operator", "primitive"):
            layers.add_column(name)
        for name in ("median ms", "share"):
            layers.add_column(name, justify="right")
        total = sum(layer["ms"] for layer in row["layers"]) or 1.0
        for layer in row["layers"]:
            share = f"{100 * layer['ms'] / total:.1f} %"
            layers.add_row(layer["name"], layer["op"], layer.get("primitive", ""), f"{layer['ms']:.4f}", share)
        console().print(layers)
