"""Draw the diagrams of the pages into docs/pictures/: `python -m scripts.draw_pictures`.

The picture of the rooms is drawn from scripts/floors.toml, which tests/test_floors.py holds; the bars of the peers from
bench/results/peers.json, the workers of exploring from explore.json. Those of boards and GPUs need the rows that
bench.accelerators.explore_boards and bench.accelerators.gpu measured on this machine. The others are drawings. The same
input makes the same bytes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from bench import records
from bench.record import RESULTS, measured_or_none
from scripts.floors import ROOT, floors

FOLDER = ROOT / "docs" / "pictures"
_BOX, _SHADE, LINE, ACCENT = "#eef3f8", "#dbe7f3", "#43627f", "#c2571a"
_CHAR = 7.6  # px of a bold character at 12 px, on average; a box is wide enough for its longest line


@dataclass(frozen=True)
class Box:
    """A rectangle with centred lines of text: x, y of its upper left corner, width and height, in px."""

    x: float
    y: float
    width: float
    height: float
    lines: tuple[str, ...]
    fill: str = _BOX


def svg(width: float, height: float, parts: Sequence[str], title: str) -> str:
    """Return a whole drawing of `width` x `height` px on white, with the arrow head that `arrow` uses."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" font-family="sans-serif" font-size="12">\n<title>{escape(title)}</title>\n'
        f'<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0 L8 4 L0 8 z" fill="{LINE}"/></marker></defs>\n'
        f'<rect width="{width:g}" height="{height:g}" fill="white"/>\n'
    )
    return head + "\n".join(parts) + "\n</svg>\n"


def box(b: Box) -> str:
    """Return a rectangle with its lines of text, the first in bold."""
    top = b.y + b.height / 2 - 7.5 * (len(b.lines) - 1) + 4
    parts = [
        f'<rect x="{b.x:g}" y="{b.y:g}" width="{b.width:g}" height="{b.height:g}" rx="4" fill="{b.fill}" '
        f'stroke="{LINE}"/>'
    ]
    for i, line in enumerate(b.lines):
        weight = ' font-weight="bold"' if i == 0 else ' font-size="11"'
        parts.append(text(b.x + b.width / 2, top + 15 * i, line, "middle", weight))
    return "\n".join(parts)


def text(x: float, y: float, words: str, anchor: str = "start", style: str = "") -> str:
    """Return a line of text whose baseline begins, has its middle or ends at x, y."""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{style}>{escape(words)}</text>'


def arrow(*points: tuple[float, float]) -> str:
    """Return a line through the points with a head at the last."""
    path = "M" + " L".join(f"{x:g} {y:g}" for x, y in points)
    return f'<path d="{path}" fill="none" stroke="{LINE}" stroke-width="1.3" marker-end="url(#head)"/>'


def row_of_boxes(x: float, y: float, texts: Sequence[Sequence[str]], height: float = 44, gap: float = 22) -> list[Box]:
    """Return boxes side by side, each as wide as its longest line needs."""
    boxes: list[Box] = []
    for lines in texts:
        width = max(len(line) for line in lines) * _CHAR + 16
        boxes.append(Box(x, y, width, height, tuple(lines)))
        x += width + gap
    return boxes


def chain(boxes: Sequence[Box]) -> list[str]:
    """Return boxes side by side with an arrow from each to the next."""
    arrows = [
        arrow((a.x + a.width, a.y + a.height / 2), (b.x, b.y + b.height / 2))
        for a, b in zip(boxes, boxes[1:], strict=False)
    ]
    return [*map(box, boxes), *arrows]


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
        Box(x, 95, 120, 44, ("compile", "per core, LLVM"), _SHADE),
        Box(x + 142, 95, 130, 44, ("reschedule", "in-order cores"), _SHADE),
        Box(x + 294, 95, 130, 44, ("library", "lib*.so, header"), _SHADE),
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
        x, y, fill = 14 + 24 * depth, 14 + 36 * depth, _SHADE if depth % 2 else _BOX
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
    end = Box(second[-1].x + second[-1].width + 30, 216, 110, 44, ("text", "other bytes kept"), _SHADE)
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
    from scripts.draw_exploring import exploring  # which draws with what is above

    functions = (pipelines, loop_nest, machine_passes, chunk, rooms, peers, exploring)
    return {f"{function.__name__}.svg": function for function in functions}


def drawings_of_rows() -> Mapping[str, Callable[[], str]]:
    """Return the functions that draw what benches measured on this machine, by the bench's name."""
    from scripts.draw_exploring import exploring_boards
    from scripts.draw_gpu import gpu

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
