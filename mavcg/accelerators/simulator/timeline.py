"""Draw the timeline of a simulation as SVG: a row for each unit, a bar for each instruction or run of instructions."""

from collections.abc import Iterator, Sequence

from mavcg.accelerators.image.program import AccelProgram
from mavcg.accelerators.isa.forms import UNITS
from mavcg.accelerators.simulator.cycles import SimulatedTime, Span
from mavcg.text.safe_text import xml_text

_WIDTH, _LEFT, _ROW, _TOP = 1400, 60, 46, 44
_COLOURS = {"load": "#4477aa", "save": "#66ccee", "conv": "#228833", "pool": "#ccbb44", "misc": "#aa3377"}
_TICKS = 8


def timeline_svg(program: AccelProgram, time: SimulatedTime) -> str:
    """Return the drawing. Consecutive instructions of a unit that end within the same pixel become one bar."""
    scale = (_WIDTH - _LEFT - 20) / max(1, time.cycles)
    height = _TOP + _ROW * len(UNITS) + 40
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{_LEFT}" y="20" font-size="14">{xml_text(program.network)} on {xml_text(program.target.name)}: '
        f"{time.cycles} cycles</text>",
    ]
    for number, name in enumerate(UNITS):
        y = _TOP + number * _ROW
        lines.append(f'<text x="8" y="{y + 20}">{name}</text>')
        lines.append(f'<line x1="{_LEFT}" y1="{y + 32}" x2="{_WIDTH - 20}" y2="{y + 32}" stroke="#dddddd"/>')
        for first, last, count in _bars([span for span in time.spans if span.unit == number], 1 / scale):
            x, width = _LEFT + first.start * scale, max((last.end - first.start) * scale, 0.5)
            lines.append(
                f'<rect x="{x:.2f}" y="{y + 6}" width="{width:.2f}" height="26" fill="{_COLOURS[name]}">'
                f"<title>{_title(program, first, last, count)}</title></rect>"
            )
    lines += _axis(time.cycles, scale, _TOP + _ROW * len(UNITS))
    return "\n".join([*lines, "</svg>", ""])


def _bars(spans: Sequence[Span], pixel: float) -> Iterator[tuple[Span, Span, int]]:
    """Yield the first and last instruction of each bar, and the number of its instructions."""
    ordered = sorted(spans, key=lambda span: span.start)
    at = 0
    while at < len(ordered):
        first = last = at
        while (
            last + 1 < len(ordered)
            and ordered[last + 1].start - ordered[last].end < pixel / 2
            and ordered[last].end - ordered[first].start < pixel
        ):
            last += 1
        yield ordered[first], ordered[last], last - first + 1
        at = last + 1


def _title(program: AccelProgram, first: Span, last: Span, count: int) -> str:
    instruction = program.instructions[first.index]
    node = f" of {xml_text(program.nodes[instruction.origin.node])}" if instruction.origin is not None else ""
    number = f"instruction {first.index}" if count == 1 else f"instructions {first.index} to {last.index}"
    return f"{number} ({instruction.form.name}{node}), cycles {first.start} to {last.end}"


def _axis(cycles: int, scale: float, y: int) -> Iterator[str]:
    step = 10 ** max(0, len(str(cycles // _TICKS)) - 1)
    step *= next((factor for factor in (1, 2, 5) if cycles // (step * factor) <= _TICKS), 10)
    for tick in range(0, cycles + 1, max(1, step)):
        x = _LEFT + tick * scale
        yield f'<line x1="{x:.2f}" y1="{_TOP}" x2="{x:.2f}" y2="{y}" stroke="#eeeeee"/>'
        yield f'<text x="{x:.2f}" y="{y + 16}" text-anchor="middle">{tick}</text>'
