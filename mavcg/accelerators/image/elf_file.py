"""Write and read accelerator programs as ELF files: 64-bit, little-endian, static, with sections for other tools.

.text: code. .parameters: weights. .features: size of the features segment, without contents. .lines: the origin of each
instruction. .network: the description, as JSON. .host: what the host side in C needs of it. .timing: the frequency in
kHz, and the simulated cycles of each segment, in 64 bits each. .cpu: files of the CPU parts, one on a line. Symbols:
start of each node's code. The same program gives the same bytes. Source: System V ABI, "Object Files"; TIS ELF 1.2.
"""

import json
import struct
from dataclasses import dataclass, replace
from pathlib import Path

from mavcg.accelerators.image.host_table import host_table
from mavcg.accelerators.image.program import AccelProgram, description, from_description
from mavcg.accelerators.isa.encoding import decode_program, encode_program
from mavcg.accelerators.isa.instruction import AccelInstruction, Origin
from mavcg.accelerators.isa.vta import decode_vta, encode_vta
from mavcg.accelerators.target import VTA, IsaTarget
from mavcg.errors import MavcgError
from mavcg.files.bounded_read import read_bounded
from mavcg.files.decode import json_document
from mavcg.files.whole_file import write_whole

_HEADER, _SEGMENT, _SECTION, _SYMBOL = "<16sHHIQQQIHHHHHH", "<IIQQQQQQ", "<IIQQQQIIQQ", "<IBBHQQ"
_MAGIC = b"\x7fELF\x02\x01\x01" + bytes(9)
_LINE = struct.Struct("<5I")  # instruction, node, row, column, channel
_PROGBITS, _SYMTAB, _STRTAB, _NOBITS = 1, 2, 3, 8
_ALIGNMENT = 64
MOST_FILE_BYTES = 1 << 32
REMEDY = "build it again by `mavcg accel build`"


@dataclass(frozen=True)
class _Section:
    name: str
    kind: int
    content: bytes
    size: int
    flags: int = 0
    link: int = 0
    info: int = 0
    entry: int = 0


def write_elf(program: AccelProgram, path: Path) -> int:
    """Write the program as a file, whole or not at all, and return the file's size in bytes.

    Raises: MavcgError, OSError.
    """
    content = elf_bytes(program)
    write_whole(path, content, "-o")
    return len(content)


def elf_bytes(program: AccelProgram) -> bytes:
    """Return the contents of the file. Raises: MavcgError for a field beyond its limits."""
    code = (encode_vta if program.target.isa == VTA else encode_program)(program.instructions)
    network = json.dumps(description(program), sort_keys=True, separators=(",", ":")).encode()
    symbols, strings = _symbols(program)
    sections = [
        _Section("", 0, b"", 0),
        _Section(".text", _PROGBITS, code, len(code), flags=6),
        _Section(".parameters", _PROGBITS, program.parameters, len(program.parameters), flags=2),
        _Section(".features", _NOBITS, b"", program.feature_bytes, flags=3),
        _Section(".lines", _PROGBITS, _lines(program), 0, entry=_LINE.size),
        _Section(".network", _PROGBITS, network, 0),
        _Section(".cpu", _PROGBITS, _cpu_lines(program), 0),
        _Section(".host", _PROGBITS, host_table(program), 0),
        _Section(".timing", _PROGBITS, _timing(program), 0),
        _Section(".symtab", _SYMTAB, symbols, 0, link=10, info=1, entry=struct.calcsize(_SYMBOL)),
        _Section(".strtab", _STRTAB, strings, 0),
    ]
    names = bytearray(b"\0")
    at_name = []
    for name in [*(section.name for section in sections), ".shstrtab"]:
        at_name.append(len(names) if name else 0)
        names += name.encode() + b"\0" if name else b""
    sections.append(_Section(".shstrtab", _STRTAB, bytes(names), 0))
    at = struct.calcsize(_HEADER) + 3 * struct.calcsize(_SEGMENT)
    body, headers, address, segments = bytearray(), [], 0, []
    for section, name_at in zip(sections, at_name, strict=True):
        if section.name:
            body += bytes(-(at + len(body)) % _ALIGNMENT)
        offset = at + len(body) if section.name else 0
        size = section.size or len(section.content)
        body += section.content
        # Addresses of the three segments follow one another; the loader chooses real ones.
        memory_address = address if section.flags else 0
        if section.flags:
            kind = 5 if section.flags & 4 else 6 if section.flags & 1 else 4
            segments.append((1, kind, offset, memory_address, memory_address, len(section.content), size, _ALIGNMENT))
            address += -(-size // _ALIGNMENT) * _ALIGNMENT
        alignment = _ALIGNMENT if section.name else 0
        headers.append(
            (
                name_at,
                section.kind,
                section.flags,
                memory_address,
                offset,
                size,
                section.link,
                section.info,
                alignment,
                section.entry,
            )
        )
    body += bytes(-(at + len(body)) % 8)
    head = struct.pack(
        _HEADER,
        _MAGIC,
        2,
        0,
        1,
        0,
        struct.calcsize(_HEADER),
        at + len(body),
        0,
        struct.calcsize(_HEADER),
        struct.calcsize(_SEGMENT),
        3,
        struct.calcsize(_SECTION),
        len(sections),
        len(sections) - 1,
    )
    table = b"".join(struct.pack(_SECTION, *header) for header in headers)
    return head + b"".join(struct.pack(_SEGMENT, *segment) for segment in segments) + bytes(body) + table


def _timing(program: AccelProgram) -> bytes:
    words = (round(program.target.frequency_mhz * 1000), *(segment.cycles for segment in program.segments))
    return struct.pack(f"<{len(words)}Q", *words)


def _cpu_lines(program: AccelProgram) -> bytes:
    return "".join(f"{library}\n" for library in program.libraries).encode()


def _lines(program: AccelProgram) -> bytes:
    return b"".join(
        _LINE.pack(
            index,
            instruction.origin.node,
            instruction.origin.row,
            instruction.origin.column,
            instruction.origin.channel,
        )
        for index, instruction in enumerate(program.instructions)
        if instruction.origin is not None
    )


def _symbols(program: AccelProgram) -> tuple[bytes, bytes]:
    """Return the symbol table and its strings: a symbol for each node, at the first instruction that computes it."""
    symbols, strings, offset = bytearray(struct.pack(_SYMBOL, 0, 0, 0, 0, 0, 0)), bytearray(b"\0"), 0
    seen: set[int] = set()
    for instruction in program.instructions:
        if instruction.origin is not None and instruction.origin.node not in seen:
            seen.add(instruction.origin.node)
            symbols += struct.pack(_SYMBOL, len(strings), 0x12, 0, 1, offset, 0)
            strings += program.nodes[instruction.origin.node].encode() + b"\0"
        offset += instruction.form.words * 4
    return bytes(symbols), bytes(strings)


def read_elf(path: Path) -> AccelProgram:
    """Return the program in a file. Raises: MavcgError naming file, section and value."""
    try:
        content = read_bounded(path, MOST_FILE_BYTES)
    except OSError as error:
        raise MavcgError(f"{path}: cannot be read ({error.strerror}); {REMEDY}") from error
    return parse_elf(content, str(path))


def parse_elf(content: bytes, name: str) -> AccelProgram:
    """Return the program in a file's contents. name: the file's name, for messages. Raises: MavcgError."""
    sections = _read_sections(content, name)
    for section in (".text", ".parameters", ".features", ".lines", ".network", ".cpu", ".host"):
        if section not in sections:
            raise MavcgError(
                f"{name}: no section {section}; the file is not an accelerator program, or is damaged; {REMEDY}"
            )

    def code(target: IsaTarget) -> list[AccelInstruction]:
        decoder = decode_vta if target.isa == VTA else decode_program
        instructions = decoder(sections[".text"].content, name)
        _add_origins(instructions, sections[".lines"].content, name)
        return instructions

    location = f"{name}: section .network"
    try:
        table = json_document(sections[".network"].content.decode(), location, REMEDY).value
    except UnicodeDecodeError as error:
        raise MavcgError(f"{location}: is not readable ({error}); {REMEDY}") from error
    try:
        program = from_description(table, code, sections[".parameters"].content, location)
    except MavcgError as error:  # other versions of mavcg have other keys
        raise MavcgError(f"{error}; if another mavcg built the file, {REMEDY}") from error
    if program.feature_bytes != sections[".features"].size:
        wrong = f"feature_bytes {program.feature_bytes} where section .features has {sections['.features'].size}"
        raise MavcgError(f"{location}: {wrong}; {REMEDY}")
    for section, content in ((".cpu", _cpu_lines(program)), (".host", host_table(program))):
        if sections[section].content != content:
            raise MavcgError(f"{name}: section {section} contradicts section .network; {REMEDY}")
    return program


def _read_sections(content: bytes, name: str) -> dict[str, _Section]:
    head_size, entry_size = struct.calcsize(_HEADER), struct.calcsize(_SECTION)
    if len(content) < head_size or content[:7] != _MAGIC[:7]:
        raise MavcgError(f"{name}: not a 64-bit little-endian ELF file; give a file of `mavcg accel build`")
    head = struct.unpack_from(_HEADER, content)
    table_at, found_entry, count, names_index = head[6], head[11], head[12], head[13]
    if found_entry != entry_size or not 0 < count <= 64 or names_index >= count:
        raise MavcgError(f"{name}: ELF header with {count} sections of {found_entry} bytes: damaged; {REMEDY}")
    if table_at + count * entry_size > len(content):
        raise MavcgError(
            f"{name}: the section table at {table_at:#x} is beyond the file's {len(content)} bytes; {REMEDY}"
        )
    rows = [struct.unpack_from(_SECTION, content, table_at + index * entry_size) for index in range(count)]
    texts = [_content(row, content, name) for row in rows]
    by_title = {}
    for row, text in zip(rows, texts, strict=True):
        end = texts[names_index].find(b"\0", row[0])
        if row[1] and (row[0] >= len(texts[names_index]) or end < 0):
            raise MavcgError(f"{name}: a section's name at {row[0]:#x} is beyond their table; {REMEDY}")
        title = texts[names_index][row[0] : end].decode("ascii", "replace")
        if title in by_title:
            raise MavcgError(f"{name}: two sections {title}; {REMEDY}")
        by_title[title] = _Section(title, row[1], text, row[5])
    return by_title


def _content(row: tuple[int, ...], content: bytes, name: str) -> bytes:
    kind, offset, size = row[1], row[4], row[5]
    if kind in (0, _NOBITS):
        return b""
    if offset + size > len(content):
        raise MavcgError(
            f"{name}: a section of {size} bytes at {offset:#x} ends after the file's {len(content)} bytes; {REMEDY}"
        )
    return content[offset : offset + size]


def _add_origins(instructions: list[AccelInstruction], lines: bytes, name: str) -> None:
    if len(lines) % _LINE.size:
        raise MavcgError(
            f"{name}: section .lines has {len(lines)} bytes, which is not a multiple of {_LINE.size}; {REMEDY}"
        )
    last = -1
    for index, *origin in _LINE.iter_unpack(lines):
        if not last < index < len(instructions):
            raise MavcgError(
                f"{name}: section .lines names instruction {index} of {len(instructions)} in the wrong place; {REMEDY}"
            )
        instructions[index] = replace(instructions[index], origin=Origin(*origin))
        last = index
