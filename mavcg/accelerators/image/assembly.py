"""Assembly text of accelerator programs: a disassembled program assembles to the same bytes.

    .version 1
    .network {"network": "net", ...}
    .parameters 144
      AAEC...
    .code
      misc.start version=1
      load.map signal=conv ddr=0 ddr_pixel=3 ...
      conv.dense wait=load signal=save from=0 ... at=2,0,0,0    # conv1

Numbers are decimal or 0x hexadecimal. `wait` and `signal` list units; `at` is the origin: node, row, column, channel.
"""

import base64
import binascii
import json
from collections.abc import Iterator, Sequence

from mavcg.accelerators.image.program import AccelProgram, description, from_description
from mavcg.accelerators.isa.forms import FORMS, VERSION
from mavcg.accelerators.isa.instruction import AccelInstruction, Origin, check_instruction
from mavcg.accelerators.isa.vta import VTA_FORMS
from mavcg.errors import MavcgError
from mavcg.files.decode import json_document
from mavcg.text.safe_text import printable as safe

_BYTES_A_LINE = 72
_MASKS = ("wait", "signal")
_ALL_FORMS = {**FORMS, **VTA_FORMS}


def disassemble(program: AccelProgram) -> Iterator[str]:
    """Yield the lines of the program's text, each with its end."""
    yield f".version {VERSION}\n"
    yield f".network {json.dumps(description(program), sort_keys=True)}\n"
    yield f".parameters {len(program.parameters)}\n"
    for at in range(0, len(program.parameters), _BYTES_A_LINE):
        yield f"  {base64.b64encode(program.parameters[at : at + _BYTES_A_LINE]).decode()}\n"
    yield ".code\n"
    for instruction in program.instructions:
        yield f"  {instruction_text(instruction)}{_comment(program, instruction)}\n"


def instruction_text(instruction: AccelInstruction) -> str:
    """Return an instruction as a line of assembly."""
    masks = ((name, mask) for name, mask in zip(_MASKS, (instruction.wait, instruction.signal), strict=True) if mask)
    words = [instruction.form.name, *(f"{name}={mask_text(mask, instruction.form.units)}" for name, mask in masks)]
    words += [f"{field.name}={instruction.values[field.name]}" for field in instruction.form.fields]
    if instruction.origin is not None:
        words.append(
            f"at={instruction.origin.node},{instruction.origin.row},{instruction.origin.column},{instruction.origin.channel}"
        )
    return " ".join(words)


def mask_text(mask: int, units: Sequence[str]) -> str:
    """Return the names of a mask's units, with commas."""
    return ",".join(unit for bit, unit in enumerate(units) if mask >> bit & 1)


def _comment(program: AccelProgram, instruction: AccelInstruction) -> str:
    return f"    # {safe(program.nodes[instruction.origin.node])}" if instruction.origin is not None else ""


def assemble(text: str, name: str) -> AccelProgram:
    """Return the program that a text describes. name: name of the text's file, for messages.

    Raises: MavcgError naming the line, for an unknown mnemonic, field, unit or directive, a value beyond its field's
    limits, a field that is missing or repeated, and parameters that are not base64 or not of the announced length.
    """
    state = _Assembled(name)
    for number, line in enumerate(text.split("\n"), 1):
        state.take(line, f"{name}:{number}")
    return state.to_program()


class _Assembled:
    """State of the assembler: contents of the lines so far."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.section = ""
        self.version = False
        self.network: object = None
        self.announced: int | None = None
        self.parameters = bytearray()
        self.instructions: list[AccelInstruction] = []

    def take(self, line: str, location: str) -> None:
        stripped = line.strip()
        if stripped.startswith(".network "):  # JSON may have a # in its texts
            self._network(stripped, location)
            return
        stripped = stripped.split("#", 1)[0].strip()
        if not stripped:
            return
        if stripped.startswith("."):
            self._directive(stripped.split(), location)
        elif self.section == ".parameters":
            try:
                self.parameters += base64.b64decode(stripped, validate=True)
            except (binascii.Error, ValueError) as error:
                raise MavcgError(f"{location}: not base64 ({error}); write parameters as lines of base64") from error
        elif self.section == ".code":
            self.instructions.append(parse_instruction(stripped, location))
        else:
            raise MavcgError(
                f"{location}: {safe(stripped[:40])!r} stands before .code; begin with .version, .network, .code"
            )

    def _network(self, line: str, location: str) -> None:
        if self.network is not None:
            raise MavcgError(f"{location}: a second .network; a program has one")
        remedy = "write what `mavcg accel` prints"
        self.network = json_document(line.removeprefix(".network "), f"{location}: .network", remedy).value

    def _directive(self, words: list[str], location: str) -> None:
        if words == [".code"]:
            self.section = ".code"
        elif words[0] == ".version" and len(words) == 2:
            if words[1] != str(VERSION):
                raise MavcgError(f"{location}: version {safe(words[1])}; this assembler reads version {VERSION}")
            self.version = True
        elif words[0] == ".parameters" and len(words) == 2 and self.announced is None:
            self.announced, self.section = _number(words[1], location), ".parameters"
        else:
            known = ".version N, .network JSON, .parameters BYTES (once), .code"
            raise MavcgError(f"{location}: {safe(' '.join(words)[:60])}: unknown or repeated directive; known: {known}")

    def to_program(self) -> AccelProgram:
        if not self.version or self.network is None or self.section != ".code":
            raise MavcgError(f"{self.name}: lacks .version, .network or .code; start from `mavcg accel disassemble`")
        if len(self.parameters) != (self.announced or 0):
            wrong = f"{len(self.parameters)} bytes of parameters where .parameters announces {self.announced or 0}"
            raise MavcgError(f"{self.name}: {wrong}; correct the number or the lines")
        return from_description(
            self.network, lambda _: self.instructions, bytes(self.parameters), f"{self.name}: .network"
        )


def parse_instruction(line: str, location: str) -> AccelInstruction:
    """Return the instruction on one line, which has no comment. Raises: MavcgError, see assemble."""
    mnemonic, *words = line.split()
    form = _ALL_FORMS.get(mnemonic)
    if form is None:
        raise MavcgError(f"{location}: unknown instruction {safe(mnemonic)}; known: {', '.join(_ALL_FORMS)}")
    values: dict[str, int] = {}
    masks = dict.fromkeys(_MASKS, 0)
    origin = None
    seen: set[str] = set()
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or key in seen:
            raise MavcgError(f"{location}: {safe(word)}: write fields as name=value, each once")
        seen.add(key)
        if key in masks:
            masks[key] = _mask(text, form.units, location)
        elif key == "at":
            origin = _origin(text, location)
        else:
            values[key] = _number(text, location)
    made = AccelInstruction(form, values, masks["wait"], masks["signal"], origin)
    check_instruction(made, location)
    return made


def _mask(text: str, units: Sequence[str], location: str) -> int:
    mask = 0
    for unit in text.split(","):
        if unit not in units:
            raise MavcgError(f"{location}: unknown unit {safe(unit)!r}; known: {', '.join(units)}")
        mask |= 1 << units.index(unit)
    return mask


def _origin(text: str, location: str) -> Origin:
    numbers = [_number(part, location) for part in text.split(",")]
    if len(numbers) != 4 or not all(0 <= number < 1 << 32 for number in numbers):
        raise MavcgError(f"{location}: at={safe(text)}; write it as node,row,column,channel")
    return Origin(*numbers)


def _number(text: str, location: str) -> int:
    try:
        if len(text) > 20:
            raise ValueError
        return int(text, 16 if text.lower().removeprefix("-").startswith("0x") else 10)
    except ValueError:
        raise MavcgError(f"{location}: {safe(text[:40])!r} is not a number; write it decimal or as 0x1f") from None
