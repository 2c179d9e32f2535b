"""Reads `perf script` text as samples. Only the leaf of a call graph, the function that ran, is counted.

Source of the layouts: perf-script(1), option -F; tools/perf/builtin-script.c of Linux 4.4 to 6.8 by their output.
simpleperf's report_sample.py writes the same layout, separated by tabs.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from mavcg.errors import ProfileError
from mavcg.program.profiling.branch_stack import has_branches, without_branches
from mavcg.program.profiling.sample_table import UNKNOWN, SampleTable, Tally, split_event

# comm pid[/tid] [cpu] flags time: period event: frame; all but comm and pid may be absent (-F).
# A thread's name may contain spaces and is at most 15 bytes in Linux; simpleperf's are limited here for speed.
_COMM_PID = r"\s*(?P<comm>\S.{0,62}?)\s+(?P<pid>-?\d{1,10})(?:/-?\d{1,10})?(?=\s|$)"
_AFTER_PID = (
    r"(?:\s+\[(?P<cpu>\d{1,6})\])?"
    r"(?:\s+[\w.]{4,6}(?=\s+\d+\.\d+:))?"
    r"(?:\s+(?P<time>\d{1,15}\.\d{1,9}):)?"
    r"(?:\s+(?P<period>\d{1,18})(?=\s+[^\s:]\S*:(?:\s|$)|\s*$))?"
    r"(?:\s+(?P<event>[a-zA-Z_]\S*):(?=\s|$))?"
    r"(?:\s+(?P<rest>\S.*))?"
)
# If a CPU or time follows, the number before it is the process, and `my prog 12` may be a thread's name.
_SURE_HEADER = re.compile(
    _COMM_PID + r"(?=\s+\[\d{1,6}\]\s|\s+(?:[\w.]{4,6}\s+)?\d{1,15}\.\d{1,9}:(?:\s|$))" + _AFTER_PID
)
_HEADER = re.compile(_COMM_PID + _AFTER_PID)
_FRAME = re.compile(r"\s*(?P<ip>(?:0x)?[0-9a-f]{1,16})(?:\s+(?P<rest>.*))?")
_COMM_FRAME = re.compile(r"\s*\S.{0,62}?\s+(?P<frame>[0-9a-f]{4,16}\s+\S.*\)\s*)")
_OFFSET = re.compile(r"\+0x(?P<offset>[0-9a-f]{1,16})$")
_COMMAND = re.compile(r"#\s*cmdline\s*:\s*(.*)")


@dataclass(frozen=True)
class Frame:
    """One line of a call graph.

    Args:
        inlined: True for an inlined function, whose code belongs to the next frame.
        offset: bytes from the function's start, if printed (-F symoff).
    """

    symbol: str
    object: str
    inlined: bool = False
    offset: int | None = None


@dataclass(frozen=True)
class _Header:
    event: str
    core: str | None
    cpu: int | None
    period: float


def looks_like_perf_script(lines: Iterable[str]) -> bool:
    """True if one of these lines is typical of perf script: an event with a time or name, or an address with a file."""
    for line in (line.rstrip() for line in lines):
        header = _match_header(line)
        if header is not None and header["time"] and (header["event"] or parse_frame(header["rest"] or "", True)):
            return True
        if header is not None and header["event"] and (header["cpu"] or header["period"]):
            return True
        frame = parse_frame(line, needs_object=True)
        if frame is not None and re.match(r"\s*(?:0x)?[0-9a-f]{4,16}\s", line):
            return True
        if _COMM_FRAME.fullmatch(line) and line.rstrip().endswith(")"):
            return True
    return False


def read_perf_script(lines: Iterable[str], location: str = "perf script text") -> SampleTable:
    """Read the samples of `perf script` output, weighted by their period if printed, else by 1.

    Args:
        location: name in errors, normally the file.
    Raises: ProfileError if there are no samples or none of them has a symbol.
    """
    tally, command = Tally(), ""
    waiting: _Header | None = None
    done_block = False  # the leaf of this block of lines is counted; its callers follow
    stripped = [line.rstrip() for line in lines]  # perf ends the lines of call graphs with a space
    blocks = any(not line.strip() for line in _without_outer_blanks(stripped))
    headers = headers_without_frame = 0
    for line in stripped:
        if not line.strip():
            if waiting is not None:
                _count(tally, waiting, None)
                headers_without_frame += 1
            waiting, done_block = None, False
        elif line.startswith("#"):
            command_line = _COMMAND.match(line)
            command = _recorded_command(command_line[1]) if command_line else command
        elif "PERF_RECORD_" not in line and not is_branch_line(line):
            header = _parse_header(line)
            if header is not None:
                if waiting is not None:
                    _count(tally, waiting, None)
                    headers_without_frame += 1
                headers += 1
                frame = parse_frame(header[1])
                waiting, done_block = (header[0], False) if frame is None else (None, True)
                if frame is not None:
                    _count(tally, header[0], frame)
                continue
            frame = parse_frame(line) or _frame_after_comm(line)
            if frame is None or frame.inlined:
                continue
            if waiting is not None:
                _count(tally, waiting, frame)
                waiting, done_block = None, True
            elif not headers and not (blocks and done_block):  # -F ip,sym,dso: no header lines at all
                _count(tally, _Header("unnamed", None, None, 1.0), frame)
                done_block = True
    if waiting is not None:
        _count(tally, waiting, None)
        headers_without_frame += 1
    if headers and headers == headers_without_frame:
        raise ProfileError(
            f"{location}: {headers} samples but no symbols; print them with "
            f"perf script --no-demangle -F comm,tid,cpu,time,period,event,ip,sym,dso"
        )
    return tally.reading(location, "samples", command)


def is_branch_line(line: str) -> bool:
    """True for a line below a call graph that has nothing but the sample's branch stack."""
    return has_branches(line) and _match_header(line) is None and parse_frame(line) is None


def _match_header(line: str) -> re.Match[str] | None:
    return _SURE_HEADER.fullmatch(line) or _HEADER.fullmatch(line)


def _count(tally: Tally, header: _Header, frame: Frame | None) -> None:
    symbol, object_ = (frame.symbol, frame.object) if frame is not None else (UNKNOWN, UNKNOWN)
    offset = frame.offset if frame is not None else None
    tally.add(header.event, (symbol, object_, header.cpu, header.core), header.period, 1, offset)


def _parse_header(line: str) -> tuple[_Header, str] | None:
    """Parse a sample's first line; return its header and the text after it ("" above a call graph), or None."""
    match = _match_header(line)
    if match is None:
        return None
    after = match["rest"] or ""
    known = match["time"] or match["event"] or match["cpu"]
    # Without time, event and CPU (-F comm,tid,ip,...) any prose would match, so that only a frame may follow.
    if not known and after and parse_frame(after, needs_object=True) is None:
        return None
    if not known and parse_frame(line, needs_object=True) is not None:
        return None
    event, core = split_event(match["event"] or "unnamed")
    return _Header(
        event, core, int(match["cpu"]) if match["cpu"] else None, float(match["period"]) if match["period"] else 1.0
    ), after


def parse_frame(text: str, needs_object: bool = False) -> Frame | None:
    """Parse `ip symbol+0xoffset (object)`, where symbol and object may contain spaces and parentheses."""
    match = _FRAME.fullmatch(text.rstrip())
    if match is None:
        return None
    symbol, object_ = split_object(without_branches(match["rest"] or ""))
    if needs_object and object_ is None:
        return None
    at = _OFFSET.search(symbol.strip())
    symbol = _OFFSET.sub("", symbol.strip())
    return Frame(symbol or UNKNOWN, object_ or "", object_ == "inlined", int(at["offset"], 16) if at else None)


def split_object(text: str) -> tuple[str, str | None]:
    """Split `symbol (object)` into symbol and object; the object is None if it is absent.

    The object is the last balanced pair of parentheses with a space before it: in `f(int) (/tmp/a (deleted))` it is
    `/tmp/a (deleted)`; `f(int)` has none.
    """
    text = text.rstrip()
    if not text.endswith(")"):
        return text, None
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        depth += (text[at] == ")") - (text[at] == "(")
        if depth == 0:
            if at == 0 or text[at - 1].isspace():
                return text[:at].rstrip(), text[at + 1 : -1]
            return text, None
    return text, None


def _frame_after_comm(line: str) -> Frame | None:
    """Parse `comm ip symbol (object)`, as -F comm,ip,sym,dso prints it."""
    match = _COMM_FRAME.fullmatch(line)
    return parse_frame(match["frame"], needs_object=True) if match is not None else None


def _without_outer_blanks(lines: list[str]) -> list[str]:
    full = [at for at, line in enumerate(lines) if line.strip()]
    return lines[full[0] : full[-1] + 1] if full else []


def _recorded_command(cmdline: str) -> str:
    """Return the program's part of perf's own command line, after `--`."""
    return cmdline.partition(" -- ")[2].strip() or cmdline.strip()
