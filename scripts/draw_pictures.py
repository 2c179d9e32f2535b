"""Draw the diagrams of the pages into docs/pictures/: `python -m scripts.draw_pictures`.

The picture of the rooms is drawn from scripts/floors.toml, which tests/test_floors.py holds; the bars of the peers from
bench/results/peers.json, the workers of exploring from explore.json. Those of boards and GPUs need the rows that
bench.accelerators.explore_boards and bench.accelerators.gpu measured on this machine. The others are drawings. The same
input makes the same bytes.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from bench import records
from bench.records import RESULTS
from bench.rows import measured_or_none
from scripts.draw_exploring import exploring, exploring_boards
from scripts.draw_gpu import gpu
from scripts.floors import ROOT, floors
from scripts.svg_shapes import ACCENT, BOX, LINE, SHADE, Box, arrow, box, chain, row_of_boxes, svg, text

FOLDER = ROOT / "docs" / "pictures"


def pipelines() -> str:
    """Draw the program pipeline and the model pipeline, and the back end that they share."""
    program = row_of_boxes(
        14,
        40,
        [
            ("profile", "perf, simpleperf"),
            ("hot functions", "ranked"),
            ("LLVM IR", "of their sources"),
            ("a copy per core", "+ dispatcher"),
        ],
    )
    model = row_of_boxes(
        14,
        150,
        [
            ("graph", "ONNX, TFLite"),
            ("optimise", "fuse, fold"),
            ("algorithms", "and layouts"),
            ("tiles, arena", "per core"),
            ("kernels", "as LLVM IR"),
        ],
    )
    x = max(program[-1].x + program[-1].width, model[-1].x + model[-1].width) + 40
    shared = [
        Box(x, 95, 120, 44, ("compile", "per core, LLVM"), SHADE),
        Box(x + 142, 95, 130, 44, ("reschedule", "in-order cores"), SHADE),
        Box(x + 294, 95, 130, 44, ("library", "lib*.so, header"), SHADE),
    ]
    join = [
        arrow((b.x + b.width, b.y + b.height / 2), (x - 18, b.y + b.height / 2), (x - 18, 117), (x, 117))
        for b in (program[-1], model[-1])
    ]
    labels = [text(14, 28, "program pipeline"), text(14, 138, "model pipeline"), text(x, 83, "both")]
    run = text(x + 424, 160, "at run time: the version of the core that the thread is on", "end", ' font-size="11"')
    return svg(x + 440, 212, [*labels, *chain(program), *chain(model), *chain(shared), *join, run], "Two pipelines")


def loop_nest() -> str:
    """Draw the loops around the micro-kernel: macro-tile, panels, register tile."""
    levels = [
        ("each chunk of rows of work", "guided self-scheduling"),
        ("each block of NC output channels, MC rows of pixels", "macro-tile: weights or rows stay in level 2"),
        ("each KC terms of the sums", "partial sums lie in the output in between"),
        ("each NR channels: a panel of packed weights", "streams through level 1, prefetched"),
        ("each MR pixels", "register tile: MR x NR accumulators"),
        ("each term: micro-kernel", "load weights, broadcast pixels, fused multiply-add"),
    ]
    parts = []
    for depth, (name, note) in enumerate(levels):
        x, y, fill = 14 + 24 * depth, 14 + 36 * depth, SHADE if depth % 2 else BOX
        height = 36 * (len(levels) - depth) + 8 * (len(levels) - 1 - depth)
        size = f'width="{560 - 40 * depth}" height="{height}"'
        parts.append(f'<rect x="{x}" y="{y}" {size} rx="4" fill="{fill}" stroke="{LINE}"/>')
        parts.append(text(x + 10, y + 22, f"for {name}", style=' font-weight="bold"'))
        parts.append(text(590, y + 22, note, style=' font-size="11"'))
    return svg(900, 284, parts, "The loops around the micro-kernel")


def machine_passes() -> str:
    """Draw the order of the machine passes on a function."""
    first = row_of_boxes(
        14,
        24,
        [
            ("parse", "isa/"),
            ("blocks, liveness", "analysis/"),
            ("loop nest", "and trip counts"),
        ],
    )
    second = row_of_boxes(
        14,
        110,
        [
            ("rewrites", "transforms/", "fold, split loads,", "rename, unroll"),
            ("dependences", "registers, memory"),
            ("modulo schedule", "schedule/", "heuristic or CP-SAT"),
            ("prologue, kernel,", "epilogue"),
            ("estimate", "models/", "best form or input"),
        ],
        height=76,
    )
    third = row_of_boxes(14, 216, [("segments", "between fences"), ("list schedule", "straight-line code")])
    end = Box(second[-1].x + second[-1].width + 30, 216, 110, 44, ("text", "other bytes kept"), SHADE)
    last = second[-1]
    parts = [*chain(first), *chain(second), *chain(third), box(end)]
    down = first[-1].x + first[-1].width + 16
    parts += [
        arrow((first[-1].x + first[-1].width, 46), (down, 46), (down, 96), (40, 96), (40, 110)),
        arrow((40, 96), (6, 96), (6, 238), (14, 238)),
        arrow((last.x + last.width, 148), (end.x + 55, 148), (end.x + 55, 216)),
        arrow((third[-1].x + third[-1].width, 238), (end.x, 238)),
        text(60, 92, "a loop of one block", style=' font-size="11"'),
        text(60, 210, "all other code", style=' font-size="11"'),
    ]
    return svg(end.x + 124, 276, parts, "The machine passes")


def chunk() -> str:
    """Draw the life of a chunk: from the shared counter to a version of the kernel and back."""
    boxes = row_of_boxes(
        14,
        40,
        [
            ("shared counter", "rows left in the step"),
            ("take a chunk", "rows left x core share / 4,", "at least the minimum chunk"),
            ("which core?", "rseq, table of CPUs"),
            ("version", "of that core type"),
            ("kernel", "call rows at a time"),
        ],
        height=62,
    )
    last, first = boxes[-1], boxes[1]
    middle = last.x + last.width / 2
    back = arrow((middle, 102), (middle, 134), (first.x + 60, 134), (first.x + 60, 102))
    note = text(
        first.x + 76,
        128,
        "until the counter is empty; a moved thread runs the next chunk's new version",
        style=' font-size="11"',
    )
    return svg(last.x + last.width + 14, 150, [*chain(boxes), back, note], "The life of a chunk")


def rooms() -> str:
    """Draw the floors of floors.toml, the ground at the bottom: a box for each folder, and the floor's name."""
    height, left = 36 * len(floors()) + 20, 100.0
    parts, width = [], 0.0
    for i, floor in enumerate(floors()):
        boxes = row_of_boxes(left, height - 36 * (i + 1) - 6, [(name,) for name in floor.folders], height=28, gap=8)
        parts.append(text(14, boxes[0].y + 18, floor.name))
        parts += [box(b) for b in boxes]
        width = max(width, boxes[-1].x + boxes[-1].width)
    return svg(width + 14, height, parts, "Floors: an import only goes down")


def peers() -> str:
    """Draw time beside the fastest other runtime for each network and number of threads, from the record."""
    table = next(records.read(RESULTS / "peers.json").tables)
    rows = [(row[0], threads, row[at]) for row in table.rows for threads, at in ((1, 2), (2, 6))]
    ratios = {(row[0], threads): float(row[at]) for row in table.rows for threads, at in ((1, 3), (2, 7)) if row[at]}
    networks = [row[0] for row in table.rows if row[2]]
    left, scale, step = 190.0, 380.0, 34
    height = step * len(networks) + 58
    parts = [text(14, 20, "mavcg's time / that of the fastest other runtime; below 1 mavcg is faster")]
    for i, network in enumerate(networks):
        top = 34 + step * i
        parts.append(text(left - 8, top + 17, network, "end"))
        for threads, fastest in ((row[1], row[2]) for row in rows if row[0] == network):
            y, ratio = top + (2 if threads == 1 else 14), ratios[network, threads]
            fill = ACCENT if ratio > 1 else LINE if threads == 1 else "#8fb0cf"
            parts.append(f'<rect x="{left:g}" y="{y}" width="{scale * ratio:.1f}" height="11" fill="{fill}"/>')
            label = f"{ratio:.2f} with {threads} thread{'s' * (threads > 1)}, {fastest.split('(')[-1].rstrip(')')}"
            parts.append(text(left + scale * ratio + 6, y + 9.5, label, style=' font-size="10"'))
    bottom = 34 + step * len(networks)
    parts.append(f'<path d="M{left + scale:g} 28 V{bottom}" stroke="{ACCENT}" stroke-dasharray="4 3" fill="none"/>')
    parts.append(text(left + scale, bottom + 15, "1.0", "middle"))
    return svg(left + scale * 1.1 + 160, height, parts, "Networks beside the fastest other runtime")


def drawings() -> Mapping[str, Callable[[], str]]:
    """Return the function that draws each picture, as text, by its file's name."""
    functions = (pipelines, loop_nest, machine_passes, chunk, rooms, peers, exploring)
    return {f"{function.__name__}.svg": function for function in functions}


def drawings_of_rows() -> Mapping[str, Callable[[], str]]:
    """Return the functions that draw what benches measured on this machine, by the bench's name."""
    return {"explore_boards": exploring_boards, "gpu": gpu}


def main() -> None:
    """Write all pictures."""
    FOLDER.mkdir(exist_ok=True)
    of_rows = {f"{draw.__name__}.svg": draw for name, draw in drawings_of_rows().items() if measured_or_none(name)}
    for name, draw in {**drawings(), **of_rows}.items():
        Path(FOLDER / name).write_text(draw())
        print(f"docs/pictures/{name}")


if __name__ == "__main__":
    main()
