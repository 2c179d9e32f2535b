"""Report a simulation: rates, utilisation and energy as a table, and the timeline of the units as SVG."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mavcg.accelerators.image.program import AccelProgram
from mavcg.accelerators.isa.datapath import datapath
from mavcg.accelerators.simulator.cycles import SimulatedTime, Span
from mavcg.accelerators.simulator.vta_timing import timing_of
from mavcg.text.safe_text import xml_text

# Energy in pJ at 45 nm, 0.9 V: Horowitz, "Computing's energy problem", ISSCC 2014, figure 1.1.9: an 8-bit multiply and
# a 32-bit add; a byte from an 8 KiB SRAM (10 pJ for 64 bits); a byte from DRAM (1.3 nJ for 64 bits, the lower bound).
MAC_PJ, SRAM_BYTE_PJ, DRAM_BYTE_PJ = 0.2 + 0.1, 10 / 8, 1300 / 8
ENERGY_BASIS = (
    "dynamic energy at 45 nm by Horowitz (ISSCC 2014): 0.3 pJ a multiply-add, 1.25 pJ a byte of on-chip memory, 162.5 "
    "pJ a byte of DDR memory; no leakage, no clock, no host"
)
_WIDTH, _LEFT, _ROW, _TOP = 1400, 60, 46, 44
_COLOURS = {"load": "#4477aa", "save": "#66ccee", "conv": "#228833", "pool": "#ccbb44", "misc": "#aa3377"}
_COLOURS |= {"compute": _COLOURS["conv"], "store": _COLOURS["save"]}
_TICKS = 8


def simulated_json(program: AccelProgram, time: SimulatedTime) -> dict[str, Any]:
    """Return the results as a JSON table.

    It has cycles, milliseconds, the images of a run, 10^9 operations per second of all cores, busy cycles, stalls and
    bytes, which are those of a run but for ddr_bytes_per_image.
    utilisation: operations of the convolutions, as a fraction of those that the arrays could do in this time.
    """
    target = program.target
    ms = time.cycles / target.frequency_mhz / 1000
    gops = program.operations * target.batch / ms / 1e6 if time.cycles else 0.0
    return {
        "network": program.network,
        "target": target.name,
        "cycles": time.cycles,
        "ms": ms,
        "images": program.images,
        "gops": gops,
        "utilisation": gops / target.peak_gops,
        "units": dict(time.busy),
        "stalls": dict(time.stalls),
        "ddr_bytes": time.ddr_bytes,
        "ddr_bytes_per_image": time.ddr_bytes / program.images,
        "energy": {"millijoules": energy_mj(program, time), "assumes": ENERGY_BASIS},
    }


def ddr_text(report: Mapping[str, Any]) -> str:
    """Return the DDR traffic of simulated_json's table in words."""
    each = (
        f", {report['ddr_bytes_per_image']:.0f} for each of {report['images']} images" if report["images"] > 1 else ""
    )
    return f"{report['ddr_bytes']} bytes of DDR memory{each}"


def energy_mj(program: AccelProgram, time: SimulatedTime) -> float:
    """Return the energy for a run in mJ, estimated as ENERGY_BASIS states."""
    path, work_of = datapath(program.target), timing_of(program.target)
    words = 0
    for instruction in program.instructions:
        work = work_of(instruction)
        words += work.read_words + work.write_words
    picojoules = program.operations / 2 * MAC_PJ + words * path.word * SRAM_BYTE_PJ + time.ddr_bytes * DRAM_BYTE_PJ
    return picojoules / 1e9


def timeline_svg(program: AccelProgram, time: SimulatedTime) -> str:
    """Return the drawing. Consecutive instructions of a unit that end within the same pixel become one bar."""
    scale = (_WIDTH - _LEFT - 20) / max(1, time.cycles)
    height = _TOP + _ROW * len(time.busy) + 40
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{_LEFT}" y="20" font-size="14">{xml_text(program.network)} on {xml_text(program.target.name)}: '
        f"{time.cycles} cycles</text>",
    ]
    for number, name in enumerate(time.busy):
        y = _TOP + number * _ROW
        lines.append(f'<text x="8" y="{y + 20}">{name}</text>')
        lines.append(f'<line x1="{_LEFT}" y1="{y + 32}" x2="{_WIDTH - 20}" y2="{y + 32}" stroke="#dddddd"/>')
        for first, last, count in _bars([span for span in time.spans if span.unit == number], 1 / scale):
            x, width = _LEFT + first.start * scale, max((last.end - first.start) * scale, 0.5)
            lines.append(
                f'<rect x="{x:.2f}" y="{y + 6}" width="{width:.2f}" height="26" fill="{_COLOURS[name]}">'
                f"<title>{_title(program, first, last, count)}</title></rect>"
            )
    lines += _axis(time.cycles, scale, _TOP + _ROW * len(time.busy))
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
