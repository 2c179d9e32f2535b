"""Instructions of the accelerator as values, and checks of their fields."""

from collections.abc import Mapping
from dataclasses import dataclass

from mavcg.accelerators.isa.forms import FORMS, VERSION, InstructionForm
from mavcg.errors import MavcgError


@dataclass(frozen=True)
class Origin:
    """The part of a node's tensor that an instruction computes: its first row, column and channel.

    node: index of the node's name in the program. row: counted on through the images of a batch. The instruction does
    not encode its origin: a table beside the code has it, like the line table of a debugger.
    """

    node: int
    row: int
    column: int
    channel: int


@dataclass(frozen=True)
class AccelInstruction:
    """One instruction.

    values: values of the form's fields, by name. wait, signal: masks of units (bit i: form.units[i]) whose tokens the
    instruction takes, and to which it gives tokens. origin: None if it computes no part of a tensor.
    """

    form: InstructionForm
    values: Mapping[str, int]
    wait: int = 0
    signal: int = 0
    origin: Origin | None = None

    def __getitem__(self, field: str) -> int:
        return self.values[field]

    @property
    def unit(self) -> int:
        """Return the index of the unit that executes the instruction."""
        return self.form.unit_number


def instruction(mnemonic: str, wait: int = 0, signal: int = 0, **values: int) -> AccelInstruction:
    """Return a checked instruction. Raises: MavcgError as check_instruction."""
    made = AccelInstruction(FORMS[mnemonic], values, wait, signal)
    check_instruction(made, mnemonic)
    return made


def check_instruction(instruction: AccelInstruction, location: str) -> None:
    """Check that each field exists and is within its limits. Raises: MavcgError naming location, field and limits."""
    form, own = instruction.form, 1 << instruction.unit
    if instruction.values.keys() != form.by_name.keys():
        if unknown := set(instruction.values) - set(form.by_name):
            names = ", ".join(form.by_name) or "none"
            raise MavcgError(f"{location}: {form.name} has no field {min(unknown)}; its fields are {names}")
        missing = sorted(set(form.by_name) - set(instruction.values))
        raise MavcgError(f"{location}: {form.name} lacks {', '.join(missing)}; give every field")
    for name, value in instruction.values.items():
        field = form.by_name[name]
        low, high = field.limits
        if not low <= value <= high:
            raise MavcgError(f"{location}: {form.name} {name}={value}; give {low} to {high}")
    for name, mask in (("wait", instruction.wait), ("signal", instruction.signal)):
        most = (1 << len(form.units)) - 1
        if not 0 <= mask <= most:
            raise MavcgError(f"{location}: {form.name} {name}={mask}; a mask of units must be 0 to {most}")
        if mask & own:
            raise MavcgError(
                f"{location}: {form.name} {name}={form.unit}; a unit executes in order and needs no token of its own"
            )
    _check_meaning(instruction, location)


def _check_meaning(instruction: AccelInstruction, location: str) -> None:
    """Check the fields that restrict each other."""
    name, values = instruction.form.name, instruction.values
    if values.get("lo", 0) > values.get("hi", 0):
        raise MavcgError(f"{location}: {name} lo={values['lo']} hi={values['hi']}; lo must be at most hi")
    if name == "misc.start" and values["version"] != VERSION:
        raise MavcgError(
            f"{location}: version {values['version']} of the instruction set; only version {VERSION} is supported"
        )
    if name == "misc.eltwise" and values["op"] > 5:
        raise MavcgError(f"{location}: {name} op={values['op']}; give 0 to 5")
    for side, shift in (("multiplier", "left"), ("second_multiplier", "second_left")):
        if name == "misc.eltwise" and values[side] and values[shift]:
            raise MavcgError(f"{location}: {name} {side}={values[side]} {shift}={values[shift]}; one of them must be 0")
    if name == "conv.transposed" and values["outside"]:
        raise MavcgError(f"{location}: {name} outside={values['outside']}; it must be 0: nothing is outside")
    if name == "conv.depthwise" and values["channels"] != values["out_channels"]:
        wrong = f"channels={values['channels']} out_channels={values['out_channels']}"
        raise MavcgError(f"{location}: {name} {wrong}; a depthwise convolution must have as many channels as its input")
    if name == "conv.depthwise" and (values["accumulate"] or values["partial"]):
        raise MavcgError(f"{location}: {name} adds nothing over input channels; accumulate and partial must be 0")
    if name == "misc.upsample":
        for axis in ("row", "column"):
            phase, factor = values[f"phase_{axis}"], values[f"factor_{axis}s"]
            if phase >= factor:
                raise MavcgError(f"{location}: {name} phase_{axis}={phase}; it must be below factor_{axis}s={factor}")
