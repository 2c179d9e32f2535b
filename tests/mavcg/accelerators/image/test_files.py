"""ELF files and assembly keep a program; other tools read them; damaged ones get errors, never anything else."""

import io
import json
import random
from dataclasses import asdict
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from mavcg.accelerators.image.assembly import assemble, disassemble
from mavcg.accelerators.image.elf_file import elf_bytes, parse_elf, read_elf, write_elf
from mavcg.accelerators.image.host import HostPlan
from mavcg.accelerators.image.program import AccelProgram, AccelSegment, description
from mavcg.accelerators.isa.encoding import decode_program, encode_program
from mavcg.accelerators.simulator.cycles import simulate
from mavcg.accelerators.simulator.functional import execute
from mavcg.errors import MavcgError
from tests.mavcg.accelerators.compiled import random_program
from tests.mavcg.accelerators.random_networks import random_inputs

SEEDS = (3, 8, 17)


def segment(*inputs: str) -> dict[str, object]:
    """The table of a segment that computes nothing."""
    return asdict(AccelSegment((), inputs, (), 0))


def made(seed: int) -> AccelProgram:
    generated = random_program(seed)
    assert generated is not None
    return generated[2]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_program_survives_elf_and_assembly(seed: int, tmp_path: Path) -> None:
    program = made(seed)
    size = write_elf(program, tmp_path / "net.elf")
    again = read_elf(tmp_path / "net.elf")
    text = "".join(disassemble(again))

    assert again == program
    assert size == (tmp_path / "net.elf").stat().st_size
    assert elf_bytes(assemble(text, "net.s")) == (tmp_path / "net.elf").read_bytes()


def test_pyelftools_reads_the_parts() -> None:
    program = made(8)
    elf = ELFFile(io.BytesIO(elf_bytes(program)))
    sections = {section.name: section for section in elf.iter_sections()}
    table = sections[".symtab"]
    assert isinstance(table, SymbolTableSection)
    symbols = {symbol.name: symbol["st_value"] for symbol in table.iter_symbols() if symbol.name}
    code = sections[".text"].data()
    first = next(one for one in program.instructions if one.origin is not None)
    before = program.instructions[: program.instructions.index(first)]

    assert (elf["e_type"], elf.elfclass, elf.little_endian) == ("ET_EXEC", 64, True)
    assert code == encode_program(program.instructions)
    assert sections[".parameters"].data() == program.parameters
    assert (sections[".features"]["sh_type"], sections[".features"]["sh_size"]) == ("SHT_NOBITS", program.feature_bytes)
    assert json.loads(sections[".network"].data())["tensors"] == description(program)["tensors"]
    assert sections[".cpu"].data() == b""
    assert first.origin is not None
    assert symbols[program.nodes[first.origin.node]] == 4 * sum(one.form.words for one in before)
    segments = list(elf.iter_segments())
    assert [s["p_type"] for s in segments] == ["PT_LOAD"] * 3
    assert [s["p_memsz"] for s in segments] == [len(code), len(program.parameters), program.feature_bytes]
    assert segments[0].data() == code


def check_mutant(content: bytes) -> bool:
    """True if a damaged file is refused, or is a program that runs, or ends, without any other error."""
    try:
        program = parse_elf(content, "net.elf")
    except MavcgError as error:
        assert "net.elf" in str(error)
        return True
    try:
        assert elf_bytes(assemble("".join(disassemble(program)), "net.s"))
        if program.feature_bytes < 1 << 24:
            simulate(program)
    except MavcgError:
        pass
    return False


def mutated(content: bytes, chance: random.Random) -> bytes:
    damaged = bytearray(content)
    kind = chance.randrange(4)
    if kind == 0:
        return bytes(damaged[: chance.randrange(len(damaged))])
    for _ in range(chance.choice((1, 1, 2, 8))):
        at = chance.randrange(len(damaged)) if kind < 3 else chance.randrange(64)
        damaged[at] = chance.choice((0, 0xFF, damaged[at] ^ 1 << chance.randrange(8), chance.randrange(256)))
    if kind == 2:
        first = chance.randrange(len(damaged))
        del damaged[first : first + chance.choice((1, 4, 64))]
    return bytes(damaged)


def test_damaged_files_are_refused_or_run() -> None:
    content, chance = elf_bytes(made(17)), random.Random(5)
    refused = sum(check_mutant(mutated(content, chance)) for _ in range(60))

    assert refused > 15


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_ten_thousand_damaged_files_are_refused_or_run(seed: int) -> None:
    content, chance = elf_bytes(made(SEEDS[seed % 3])), random.Random(seed)
    refused = sum(check_mutant(mutated(content, chance)) for _ in range(1000))

    assert refused > 250


def damaged_text(text: str, chance: random.Random) -> str:
    lines = text.split("\n")
    at = chance.randrange(len(lines))
    words = lines[at].split(" ")
    word = chance.randrange(len(words))
    words[word] = chance.choice(("", "x", "-1", "=", "wait=load", "at=1", words[word] * 2, words[word][:-1]))
    lines[at] = " ".join(words)
    return "\n".join(lines)


def test_damaged_assembly_is_refused_with_its_line() -> None:
    text, chance = "".join(disassemble(made(17))), random.Random(2)
    refused = 0
    for _ in range(60):
        try:
            assemble(damaged_text(text, chance), "net.s")
        except MavcgError as error:
            assert str(error).startswith("net.s")
            refused += 1
    assert refused > 20


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"feature_bytes": -1}, "feature_bytes: -1 is not a number of bytes up to 2.32"),
        ({"tensors": [{}]}, r"tensors\[0\].name: missing"),
        ({"radices": [["a", 1, [99], []]]}, r"radices\[0\]\[2\]\[0\]: 99 is not a radix position"),
        (
            {"segments": [segment("nothing")]},
            r"segments\[0\].inputs: nothing is not a tensor",
        ),
        (
            {"segments": [segment()] * 2},
            "segments: 2, but the code has 1 instructions misc.end",
        ),
        ({"segments": [{**segment(), "cycles": (1 << 40) + 1}]}, r"segments\[0\].cycles: 1099511627777 is not a count"),
        ({"host": asdict(HostPlan(cpu=()))}, "host: cpu: 0 parts around 1 segments; one more is needed"),
        ({"network": 3}, "network: 3 is not a string"),
        ({"nodes": []}, "belongs to node"),
        ({"nchw": [1]}, r"nchw\[0\]: 1 is not a string"),
        ({"host": {"cpu": 1}}, "host.cpu: 1 is not"),
        ({"host": asdict(HostPlan())}, "is not among the 8-bit tensors of the host"),
        ({"unknown": 1}, "unknown: no such key; keys here are network, "),
        ({"target": {}}, "target.name: missing"),
    ],
)
def test_wrong_descriptions_are_refused(change: dict[str, object], message: str) -> None:
    program = made(17)
    network = json.dumps({**description(program), **change})
    lines = "".join(disassemble(program)).split("\n")
    lines = [f".network {network}" if line.startswith(".network") else line for line in lines]

    with pytest.raises(MavcgError, match=f"net.s: .network: .*{message}"):
        assemble("\n".join(lines), "net.s")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rows_parallel", 0),
        ("frequency_mhz", 0),
        ("ddr_gb_per_s", "much"),
        ("ic_parallel", 3),
        ("rounding", "up"),
        ("banks", 1 << 30),
    ],
)
def test_targets_of_impossible_sizes_are_refused(key: str, value: object) -> None:
    program = made(17)
    network = description(program)
    network["target"][key] = value
    lines = [
        f".network {json.dumps(network)}" if line.startswith(".network") else line
        for line in "".join(disassemble(program)).split("\n")
    ]

    with pytest.raises(MavcgError, match="target"):
        assemble("\n".join(lines), "net.s")


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    with pytest.raises(MavcgError, match="not a 64-bit little-endian ELF file"):
        read_elf(tmp_path / "text")


def test_an_address_beyond_a_memory_names_the_instruction() -> None:
    generated = random_program(8)
    assert generated is not None
    text = "".join(disassemble(generated[2])).replace(" to=", " to=0xffff", 1)

    with pytest.raises(MavcgError, match=r"instruction \d+ \(load"):
        execute(assemble(text, "net.s"), random_inputs(generated[0], 8))


def test_decoded_code_is_encoded_code() -> None:
    program = made(3)
    plain = decode_program(encode_program(program.instructions), "code")

    assert [one.values for one in plain] == [one.values for one in program.instructions]
