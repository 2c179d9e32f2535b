"""Parser of the text of plans (docs/plan-text.md). It checks the syntax only; text/verify.py checks the meaning."""

import re
from dataclasses import dataclass, field
from typing import NoReturn

import msgspec

from mavcg.accelerators.plans.text.plan import (
    ITEM_BYTES,
    MEMORY_KINDS,
    OPERANDS,
    Command,
    Conv,
    Dims,
    Info,
    Load,
    PlanMemory,
    PlanTile,
    PoolCommand,
    Relu,
    Store,
    TextPlan,
    Types,
)
from mavcg.accelerators.plans.text.printer import PLAIN_NAME
from mavcg.errors import MavcgError

_ENTRY = re.compile(r"([A-Z]+)\s*\(([^()]*)\)")
_MEMORY = re.compile(r"([A-Z]+(?:_[A-Z]+)?)_([0-9]+)\s*\(\s*([0-9]+)\s*(bytes)?\s*\)")
_TILE = re.compile(r"([A-Z]+)_([0-9]+)\s*\[\s*([0-9]+)\s*\]\s*\(([^()]*)\)")
_HEADER = re.compile(r'\[\s*layer\s+(?:("(?:[^"\\]|\\.)*")|([^\s"\]]+))\s*\]\s*(?://.*)?')
_SECTIONS = ("info", "var", "text")
_MOST = 2**62

# Entries of [info] and how many numbers each has; TYPE has names instead.
_ENTRIES = {"INPUT": 4, "WEIGHT": 4, "OUTPUT": 4, "KERNEL": 2, "STRIDE": 2, "PADS": 4, "DILATION": 2, "GROUPS": 1}

_FORMS = {
    "LOAD": "LOAD MEMORY TILE",
    "STORE": "STORE OUTPUT_n MEMORY [PARTIAL]",
    "CONV": "CONV OUTPUT_n INPUT_n WEIGHT_n STRIDE (LEFT,RIGHT,ABOVE,BELOW) [ADD]",
    "MAXPOOL": "MAXPOOL OUTPUT_n INPUT_n STRIDE (LEFT,RIGHT,ABOVE,BELOW)",
    "AVGPOOL": "AVGPOOL OUTPUT_n INPUT_n STRIDE (LEFT,RIGHT,ABOVE,BELOW)",
    "RELU": "RELU OUTPUT_n",
}
_STRIDE_AND_PADS = r"(\d+|\(\s*\d+\s*,\s*\d+\s*\))\s+\(([^()]*)\)"
_COMMANDS = {
    "LOAD": re.compile(r"LOAD\s+(\w+)\s+(\w+)"),
    "STORE": re.compile(r"STORE\s+(\w+)\s+(\w+)(\s+PARTIAL)?"),
    "CONV": re.compile(rf"CONV\s+(\w+)\s+(\w+)\s+(\w+)\s+{_STRIDE_AND_PADS}(\s+ADD)?"),
    "MAXPOOL": re.compile(rf"MAXPOOL\s+(\w+)\s+(\w+)\s+{_STRIDE_AND_PADS}"),
    "AVGPOOL": re.compile(rf"AVGPOOL\s+(\w+)\s+(\w+)\s+{_STRIDE_AND_PADS}"),
    "RELU": re.compile(r"RELU\s+(\w+)"),
}


@dataclass
class _PlanParser:
    """State of parsing one plan, line by line."""

    file: str
    line: int
    name: str = ""
    section: str = ""
    entries: dict[str, tuple[int, ...]] = field(default_factory=dict)
    types: Types | None = None
    memories: list[tuple[str, int, bool, int]] = field(default_factory=list)  # name, size, in bytes, line
    tiles: list[PlanTile] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)

    def fail(self, problem: str) -> NoReturn:
        raise MavcgError(f"{self.file}:{self.line}: {problem}")

    def numbers(self, text: str, *counts: int) -> tuple[int, ...]:
        parts = [part.strip() for part in text.split(",")]
        if len(parts) not in counts or not all(part.isdecimal() and part.isascii() for part in parts):
            expected = " or ".join(map(str, counts))
            self.fail(f"({text}) is not {expected} integers separated by commas; write {expected}")
        values = tuple(int(part) if len(part) < 20 else _MOST for part in parts)
        if max(values) >= _MOST:
            self.fail(f"({text}) has a number of {_MOST} or more; no tensor is that large")
        return values

    def dims(self, text: str) -> Dims:
        """Parse four dimensions; with three, as in the input tiles of figure 7.1, the batch is 1."""
        sizes = self.numbers(text, 3, 4)
        a, b, c, d = sizes if len(sizes) == 4 else (1, *sizes)
        return a, b, c, d

    def pads(self, text: str) -> Dims:
        a, b, c, d = self.numbers(text, 4)
        return a, b, c, d

    def stride(self, text: str) -> tuple[int, int]:
        strides = self.numbers(text.strip("()"), 1, 2)
        if not all(strides):
            self.fail(f"a stride of {text}; write 1 or more")
        return strides[0], strides[-1]

    @property
    def missing(self) -> str:
        """The section that must come next; "" after the last."""
        return "".join(_SECTIONS[_SECTIONS.index(self.section) + 1 :][:1]) if self.section else _SECTIONS[0]

    def open_section(self, name: str) -> None:
        if name not in _SECTIONS:
            self.fail(f"section [{name}]; the sections are [info], [var] and [text], in this order")
        if name != self.missing:
            self.fail(f"[{name}] where [{self.missing or 'layer NAME'}] must come; the order is [info] [var] [text]")
        self.section = name

    def read(self, text: str) -> None:
        match self.section:
            case "info":
                self.read_entry(text)
            case "var":
                self.read_variable(text)
            case "text":
                self.read_command(text)
            case _:
                self.fail(f"{text!r} before any section; begin with [info]")

    def read_entry(self, text: str) -> None:
        match = _ENTRY.fullmatch(text)
        if not match or (match[1] not in _ENTRIES and match[1] != "TYPE"):
            self.fail(
                f"{text!r} is not an entry of [info]; write NAME(NUMBERS) with one of {', '.join(_ENTRIES)}, TYPE"
            )
        name, values = match[1], match[2]
        if name in self.entries or (name == "TYPE" and self.types):
            self.fail(f"{name} is given twice; remove one")
        if name == "TYPE":
            self.types = self.read_types(values)
            return
        self.entries[name] = self.numbers(values, _ENTRIES[name])
        if name != "PADS" and not all(self.entries[name]):
            self.fail(f"{name} has a 0 in ({values}); write 1 or more")

    def read_types(self, values: str) -> Types:
        names = [part.strip() for part in values.split(",")]
        if len(names) not in (1, 4) or not set(names) <= set(ITEM_BYTES):
            self.fail(
                f"TYPE({values}); write one type, or those of input, weight, output and partial sums, "
                f"out of {', '.join(ITEM_BYTES)}"
            )
        return Types(*(names * 4)[:4])

    def read_variable(self, text: str) -> None:
        if match := _TILE.fullmatch(text):
            if match[1] not in OPERANDS:
                self.fail(f"tile {match[1]}_{match[2]}; a tile's name begins with one of {', '.join(OPERANDS)}")
            name, (offset,) = f"{match[1]}_{match[2]}", self.numbers(match[3], 1)
            self.tiles.append(PlanTile(name, offset, self.dims(match[4]), self.line))
        elif match := _MEMORY.fullmatch(text):
            if match[1] not in MEMORY_KINDS:
                self.fail(f"memory {match[1]}_{match[2]}; a memory's name begins with one of {', '.join(MEMORY_KINDS)}")
            (size,) = self.numbers(match[3], 1)
            self.memories.append((f"{match[1]}_{match[2]}", size, bool(match[4]), self.line))
        else:
            self.fail(
                f"{text!r} is neither a memory, NAME_n(SIZE), nor a tile, NAME_n[OFFSET](DIMS); write one of these"
            )

    def read_command(self, text: str) -> None:
        word = text.split()[0]
        if word not in _FORMS:
            self.fail(f"{word!r} is not a command; the commands are {', '.join(_FORMS)}")
        match = _COMMANDS[word].fullmatch(text)
        if not match:
            self.fail(f"{text!r}; write {_FORMS[word]}")
        match word:
            case "LOAD":
                self.commands.append(Load(match[1], match[2], self.line))
            case "STORE":
                self.commands.append(Store(match[1], match[2], bool(match[3]), self.line))
            case "CONV":
                stride, pads = self.stride(match[4]), self.pads(match[5])
                self.commands.append(Conv(match[1], match[2], match[3], stride, pads, bool(match[6]), self.line))
            case "RELU":
                self.commands.append(Relu(match[1], self.line))
            case _:
                stride, pads = self.stride(match[3]), self.pads(match[4])
                self.commands.append(PoolCommand(word == "MAXPOOL", match[1], match[2], stride, pads, self.line))

    def finish(self) -> TextPlan:
        if self.missing:
            self.fail(f"the plan ends without [{self.missing}]; add it")
        info = self.info()
        return TextPlan(
            self.name, info, self.memory_sizes(info.types), tuple(self.tiles), tuple(self.commands), self.file
        )

    def info(self) -> Info:
        for name in ("INPUT", "OUTPUT"):
            if name not in self.entries:
                self.fail(f"[info] has no {name}; add {name}(BATCH,CHANNELS,HEIGHT,WIDTH)")
        if ("WEIGHT" in self.entries) == ("KERNEL" in self.entries):
            self.fail("[info] needs either WEIGHT, of a convolution, or KERNEL, of a pooling; write one of them")
        get = self.entries.get
        return Info(
            self.entry("INPUT"),
            self.entry("WEIGHT") if "WEIGHT" in self.entries else None,
            self.entry("OUTPUT"),
            _two(get("KERNEL", (1, 1))),
            _two(get("STRIDE", (1, 1))),
            self.entry("PADS") if "PADS" in self.entries else (0, 0, 0, 0),
            _two(get("DILATION", (1, 1))),
            get("GROUPS", (1,))[0],
            self.types or Types(),
        )

    def entry(self, name: str) -> Dims:
        a, b, c, d = self.entries[name]
        return a, b, c, d

    def memory_sizes(self, types: Types) -> tuple[PlanMemory, ...]:
        memories = []
        for name, size, in_bytes, line in self.memories:
            memory = PlanMemory(name, size, line)
            sizes = {types.resident_bytes(operand) for operand in memory.holds}
            if not in_bytes and len(sizes) > 1:
                self.line = line
                self.fail(f"{name}({size}): its operands have elements of {sorted(sizes)} bytes; write ({size} bytes)")
            memories.append(memory if in_bytes else PlanMemory(name, size * sizes.pop(), line))
        return tuple(memories)


def _two(values: tuple[int, ...]) -> tuple[int, int]:
    return values[0], values[1]


def _layer_name(file: str, number: int, text: str) -> str:
    match = _HEADER.fullmatch(text)
    try:
        if match and match[1]:
            return msgspec.json.decode(match[1], type=str)
        if match and PLAIN_NAME.fullmatch(match[2]):
            return match[2]
    except ValueError:
        pass
    raise MavcgError(f'{file}:{number}: {text!r} does not name a layer; write [layer NAME] or [layer "ANY NAME"]')


def parse_plans(text: str, file: str = "<plan>") -> tuple[TextPlan, ...]:
    """Return all plans of a text; each begins with its [layer NAME], or with [info] if it has no name.

    Raises: MavcgError with file, line, the mistake and its correction.
    """
    plans: list[TextPlan] = []
    reader: _PlanParser | None = None
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        header = re.match(r"\[\s*layer\b", line) is not None
        if not header:
            line = line.split("//", 1)[0].strip()
        if not line:
            continue
        section = re.fullmatch(r"\[\s*(\w+)\s*\]", line)
        if header or (section and section[1] == "info" and reader and reader.section):
            if reader:
                plans.append(reader.finish())
            reader = _PlanParser(file, number, _layer_name(file, number, line) if header else "")
            if header:
                continue
        reader = reader or _PlanParser(file, number)
        reader.line = number
        if section:
            reader.open_section(section[1])
        else:
            reader.read(line)
    if reader is None:
        raise MavcgError(f"{file}:1: no plan in it; begin with [info]")
    plans.append(reader.finish())
    return tuple(plans)


def parse_plan(text: str, file: str = "<plan>") -> TextPlan:
    """Return the single plan of a text. Raises: MavcgError if it is wrong or there are several."""
    plans = parse_plans(text, file)
    if len(plans) > 1:
        raise MavcgError(f"{file}: {len(plans)} plans where one is expected; use parse_plans or split the file")
    return plans[0]
