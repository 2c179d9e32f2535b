"""Markdown tables of the records of memory planning."""

from bench.tables.markdown import Record, Tables, table


def arena(record: Record) -> str:
    """Return the table of MiniMalloc's problems: peak at the capacity, least peak, nodes and seconds of both."""

    def cells(solution: Record) -> list[object]:
        return [f"{solution['peak']:,}", f"{solution['nodes']:,}", f"{solution['cpu_s']:.2f}"]

    rows = []
    for row in record["rows"]:
        least = row["least"]
        proven = "yes" if least["optimal"] else f"no, {100 * (least['peak'] / least['lower_bound'] - 1):.1f} % above"
        rows.append(
            [row["name"], row["buffers"], f"{row['live_peak']:,}", *cells(row["at_capacity"]), *cells(least), proven]
        )
    solved = sum(row["at_capacity"]["peak"] <= row["capacity"] for row in record["rows"])
    text = f"Counted, but for the CPU seconds: MiniMalloc's {len(record['rows'])} published problems, {solved} of them "
    text += f"solved at their capacity of {record['rows'][0]['capacity']:,}; then the least peak that it finds. "
    text += "The live peak is a lower bound of any placement: where the least peak is on it, nothing is smaller."
    head = [
        "problem",
        "buffers",
        "live peak",
        "at capacity: peak",
        "nodes",
        "CPU s",
        "least peak",
        "nodes",
        "CPU s",
        "proven least",
    ]
    return f"{text}\n\n" + table(head, rows)


def joint_memory(record: Record) -> str:
    """Return Table 6.6 by methods of using memory, beside the paper's, and Table 6.8's precisions."""
    rows = []
    for row in record["rows"]:
        weights, paper = row["weights_bytes"], row["paper_mb"]
        naive = weights + row["naive_bytes"]

        def cell(total: float, theirs: float, first: float = naive, printed: float = paper["naive"]) -> str:
            return f"{total / 1e6:.2f}, {first / total:.2f} ({theirs:g}, {printed / theirs:.2f})"

        for number, limit in enumerate(row["limits"]):
            joint = limit["arena_bytes"] + weights
            methods = [
                f"{weights / 1e6:.2f}",
                f"{naive / 1e6:.2f} ({paper['naive']:g})",
                cell(weights + row["reuse_per_cnn_bytes"], paper["reuse_per_cnn"]),
                cell(weights + row["parts_everywhere_bytes"], paper["parts_everywhere"]),
            ]
            fps = ", ".join(f"{value:.1f}" for value in limit["throughput"].values())
            missed = "" if limit["meets"] or not limit["limit_mb"] else ", missed"
            rows.append(
                [
                    row["application"] if number == 0 else "",
                    *(methods if number == 0 else [""] * 4),
                    f"{limit['limit_mb']:g} MB{missed}" if limit["limit_mb"] else "least",
                    cell(joint, limit["paper_mb"]),
                    limit["layers_by_parts"],
                    fps,
                    f"{limit['cpu_s']:.1f}",
                ]
            )
    text = (
        "Counted: MB of weights and buffers together, and how many times less than without reduction; in brackets the "
    )
    text += "paper's, measured with other software and other graphs, so that ratios compare better than bytes. "
    text += f"Frames per second of each network in turn are modelled, for {record['board']}."
    head = [
        "application",
        "weights",
        "each edge its own",
        "shared in each network [76]",
        "all by parts [65]",
        "limit",
        "joint",
        "layers by parts",
        "frames/s",
        "plan, CPU s",
    ]
    small = [
        [
            f"{row['application']}, {row['precision']}",
            *(f"{value / 1e6:.2f}" for value in (row["weights_bytes"], row["naive_bytes"], row["arena_bytes"])),
            f"{(row['weights_bytes'] + row['naive_bytes']) / (row['weights_bytes'] + row['arena_bytes']):.2f}",
            f"{row['limit_mb']} MB: {'met' if row['meets'] else 'missed'}",
        ]
        for row in record["precisions"]
    ]
    between = "MB by precision (Tables 6.7 and 6.8; mixed: data in fp16, weights in 8 bits), at the least memory:"
    columns = ["application, precision", "weights", "each edge its own", "joint", "times less in all", "limit"]
    return f"{text}\n\n{table(head, rows)}\n\n{between}\n\n{table(columns, small)}"


def row_parts(record: Record) -> str:
    """Return the table of buffers by four methods."""
    rows = [
        [
            row["network"],
            *(f"{row[key] / 1e6:.3f}" for key in ("naive_bytes", "reuse_bytes", "arena_bytes", "parts_bytes")),
            f"{(row['parts_bytes'] + row['input_bytes']) / 1e6:.3f}",
            f"{row['arena_bytes'] / row['parts_bytes']:.2f}",
            f"{row['steps']}, {row['phases']:,}",
            f"{row['moved_bytes'] / 1e6:.1f}",
            f"{row['cpu_s']:.1f}",
        ]
        for row in record["rows"]
    ]
    text = "Counted, but for the CPU seconds: MB of activations in fp32, without the input, which is the caller's. By "
    text += "parts: the least that is found; it is not proven to be the least there is."
    head = [
        "network",
        "each edge its own",
        "Algorithm 8",
        "arena, layer by layer",
        "by parts",
        "with the input",
        "times less than layer by layer",
        "steps, phases",
        "MB moved in a run",
        "plan, CPU s",
    ]
    return f"{text}\n\n{table(head, rows)}"


def pipelines(record: Record) -> str:
    """Return the table of pipelines beside single runs."""
    rows = [
        [
            row["network"],
            *(f"{each['per_second']:.1f} ({each['spread']:.1f})" for each in (*row["single"], row["pipelined"])),
            f"{row['ratio']:.3f}",
            " + ".join(f"{ms:.2f}" for ms in row["predicted_ms"]),
            f"{row['ring_bytes'] / 1e3:.0f}",
        ]
        for row in record["rows"]
    ]
    text = "Measured, interleaved: frames per second, with the spread (interquartile range). The ratio is of the "
    text += "pipeline to the better of the two single runs in the same round, above 1 where the pipeline completes "
    text += "more frames. Stages are balanced by prediction, modelled in ms; two CPUs stand for two clusters."
    head = [
        "network",
        "one thread",
        "two threads",
        "pipeline, 1 + 1",
        "ratio",
        "ms of the stages, modelled",
        "kB between stages",
    ]
    return f"{text}\n\n{table(head, rows)}"


def served_deadlines(record: Record) -> str:
    """Return the table of networks that were served as periodic jobs."""
    bounds = {each["name"]: each for each in record["service"]["networks"]}
    rows = [
        [
            row["name"],
            f"{bounds[row['name']]['period_ms']:g}",
            f"{bounds[row['name']]['deadline_ms']:g}",
            str(row["jobs"]),
            str(row["kept"]),
            f"{bounds[row['name']]['worst_ms']:.3f}",
            f"{bounds[row['name']]['bound_ms']:.3f}",
            f"{row['worst_response_ms']:.3f}",
            f"{row['median_response_ms']:.3f}",
            str(row["preemptions"]),
        ]
        for row in record["rows"]
    ]
    kept, jobs = (sum(row[key] for row in record["rows"]) for key in ("kept", "jobs"))
    rows.append(
        ["all", "", "", str(jobs), str(kept), "", "", "", "", str(sum(r["preemptions"] for r in record["rows"]))]
    )
    text = "Measured, in ms: networks that share a processor as periodic jobs, preempted between steps, before other "
    text += "programs (SCHED_FIFO). They were admitted by bounds of their responses, from the longest of the runs that "
    text += f"were timed before and {100 * record['service']['margin']:g} %."
    head = ["network", "period", "deadline", "jobs", "kept", "longest run + 20 %", "responds within", "worst response"]
    return f"{text}\n\n{table([*head, 'median response', 'preemptions'], rows)}"


def three_networks(record: Record) -> str:
    """Return the table of an application with its weights in fewer bits, and paged."""
    rows = []
    for row in record["rows"]:
        whole = row["resident_bytes"] + row["arena_bytes"]
        sizes = (row["weight_bytes"], row["resident_bytes"], row["arena_bytes"], whole)
        rows.append([row["variant"], *(f"{size / 1e6:.2f}" for size in sizes)])
        rows[-1] += ["" if row["error"] is None else f"{row['error']:.2g}"]
        for own in row["timed"]:
            rows[-1] += [f"{own['median_ms']:.2f}", f"{own['ratio']:.3f} ({own['low']:.2f} to {own['high']:.2f})"]
    text = (
        "Sizes counted, in MB; times measured, interleaved: ms of a run of face_landmark, MobileNet v1 and ShuffleNet, "
    )
    text += "one after the other, and over those in f32 in the same round (80 % of the rounds). Paged: 7 MB of weights "
    text += "in memory at most. Error: the largest of a network in fewer bits, of its largest output."
    head = ["weights", "of the library", "in memory", "buffers", "in memory with buffers", "error"]
    for own in record["rows"][0]["timed"]:
        threads = f"{own['threads']} thread{'s' if own['threads'] > 1 else ''}"
        head += [f"ms, {threads}", f"over f32, {threads}"]
    return f"{text}\n\n{table(head, rows)}"


def row_times(record: Record) -> str:
    """Return the table of the time that computing by parts of rows takes."""
    rows, clock = [], record["rows"][0]["timed"][0]["clock"]
    for row in record["rows"]:
        for timed in row["timed"]:
            for mode, own in row["ways"].items():
                rows.append(
                    [
                        f"{row['network']}, {timed['threads']} threads" if mode == "layers" else "",
                        mode,
                        f"{own['arena_bytes'] / 1e6:.3f}",
                        f"{own['phases']:,}",
                        f"{own['moved_bytes'] / 1e6:.1f}",
                        f"{timed['ms'][mode]:.2f}",
                        f"{timed['ratio'][mode]:.3f}",
                    ]
                )
    clock_text = "CPU time" if clock == "cpu_ms" else "time"
    text = (
        f"Measured, interleaved: {clock_text} of a run, and its ratio to layer by layer in the same round; above 1 is "
    )
    text += "slower. Arenas and moves are counted; the input is beside them."
    head = ["network", "limit", "arena, MB", "phases", "MB moved in a run", "ms", "ratio"]
    return f"{text}\n\n{table(head, rows)}"


def depth_first(record: Record) -> str:
    """Return the table of layers by bands of rows: time beside layer by layer, arenas, layers in bands."""
    rows = []
    for row in record["rows"]:
        cells = []
        for mode in ("auto", "on"):
            layers = sum(band["steps"] for band in row["ways"][mode]["bands"])
            cells.append(f"{layers} layers, {row['ways'][mode]['arena_bytes'] / 1e6:.2f} MB" if layers else "none")
            cells += [f"{timed['ratio'][mode]:.3f}" for timed in row["timed"]]
        times = [f"{timed['ms']['layers']:.2f}" for timed in row["timed"]]
        rows.append([row["network"], f"{row['ways']['layers']['arena_bytes'] / 1e6:.2f}", *times, *cells])
    threads = [timed["threads"] for timed in record["rows"][0]["timed"]]
    text = "Measured, interleaved: ms of a run layer by layer with one thread and with two, and the time by bands over "
    text += (
        "it, median of the rounds; below 1 is faster. `auto` takes bands where they are predicted to be faster by more "
    )
    text += "than the cost safety factor, `on` wherever they are. Arenas are counted. If `auto` takes none, both "
    text += "libraries do the same: such ratios are the noise."
    head = ["network", "arena, MB", *(f"ms, {n} thread{'s' * (n > 1)}" for n in threads)]
    for mode in ("auto", "on"):
        head += [mode, *(f"{mode}, {n} thread{'s' * (n > 1)}" for n in threads)]
    return f"{text}\n\n{table(head, rows)}"


def precision_accuracy(record: Record) -> str:
    """Return the table of trained networks by precision."""
    rows = [
        [
            row["network"],
            row["precision"],
            f"{100 * row['top1_agreement']:.1f} %",
            f"{100 * row['top5_agreement']:.1f} %",
            f"{row['sqnr_db']:.1f}",
        ]
        for row in record["rows"]
    ]
    text = (
        f"Counted, against fp32, over {record['images']} crops of two photographs: no labels ship with the networks. "
    )
    text += (
        "mixed: data in fp16, weights in 8 bits, computed as fp16; int8: 8-bit data, weights of 7 bits, calibrated on "
    )
    text += "other crops."
    head = ["network", "precision", "same first class", "fp32's first class among five", "scores' SQNR, dB"]
    return f"{text}\n\n{table(head, rows)}"


def half_accuracy(record: Record) -> str:
    """Return the table of networks' errors in half precision."""

    def error(value: float | None) -> str:
        return "-" if value is None else f"{value:.2g}"

    rows = [
        [
            row["network"],
            error(row["f16"]),
            error(row.get("throughout")),
            row["overflows"] or "none",
            error(row["bf16"]),
            error(row["auto"]),
            f"{row['auto_single']} of {row['nodes']}",
        ]
        for row in record["rows"]
    ]
    text = "Counted: the largest difference of an output from the f32 graph in f64, of the output's largest number, on "
    text += "one set of random inputs. f16: sums in blocks of 64 terms, as the kernels add, and in f16 throughout; "
    text += (
        "those of networks of more than 537 million multiply-accumulates are taken as exact. `auto` leaves operators "
    )
    text += f"in f32 until its error is at most {record['limit']:g}."
    if record["missing"]:
        text += f" Not to be had: {', '.join(record['missing'])}."
    head = [
        "network",
        "f16",
        "throughout",
        "infinite numbers in f16",
        "bf16",
        "auto",
        "operators that auto leaves in f32",
    ]
    return f"{text}\n\n{table(head, rows)}"


def half_photographs(record: Record) -> str:
    """Return the table of results on photographs in half precision."""
    rows = [
        [
            row["network"],
            row["precision"],
            f"{row['same']} of {row['crops']}",
            f"{100 * row['same'] / row['crops']:.1f} %",
            str(row["found"] or "-"),
        ]
        for row in record["rows"]
    ]
    text = "Counted, against libraries in f32 on the same machine: of classifiers the crops of photographs with the "
    text += "same first class, of detectors of faces those with as many boxes, each of which overlaps one of f32's by "
    text += "0.9 (intersection over union)."
    return f"{text}\n\n{table(['network', 'precision', 'same', 'share', 'faces in f32'], rows)}"


TABLES: Tables = {
    "arena": ("Buffers of MiniMalloc's problems in one memory", arena),
    "joint_memory": ("Applications of several networks in one memory", joint_memory),
    "row_parts": ("Networks computed by parts of rows", row_parts),
    "row_times": ("What parts of rows cost in time", row_times),
    "depth_first": ("Layers by bands of rows", depth_first),
    "precision_accuracy": ("Trained networks by precision", precision_accuracy),
    "half_accuracy": ("Errors of networks in half precision", half_accuracy),
    "half_photographs": ("Photographs in half precision", half_photographs),
    "pipelines": ("Pipelines over two CPUs beside single runs", pipelines),
    "three_networks": ("One application with its weights in fewer bits, and paged", three_networks),
    "served_deadlines": ("Networks as periodic jobs with deadlines", served_deadlines),
}
