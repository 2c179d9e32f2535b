"""Mutations of ELF and Mach-O files: the fields of their headers, load commands, section tables and notes."""

import json
import random
import struct
from collections.abc import Sequence

from fuzz.mutation import Mutate, mutator
from fuzz.mutation.trees import changed_tree

_ELF, _MACH_O = b"\x7fELF", b"\xcf\xfa\xed\xfe"
# Bytes of the fields in a table's entry. Sources: System V gABI, Elf64_Ehdr, Elf64_Phdr, Elf64_Shdr; loader.h.
_ELF_HEADER = (4, 1, 1, 1, 1, 8, 2, 2, 4, 8, 8, 8, 4, 2, 2, 2, 2, 2, 2)
_ELF_SEGMENT = (4, 4, 8, 8, 8, 8, 8, 8)
_ELF_SECTION = (4, 4, 8, 8, 8, 8, 4, 4, 8, 8)
_MACH_O_HEADER_BYTES = 32
_LONGEST_NOTE = 1 << 14  # bytes
_NOTE_KEYS = "functions versions name core version bytes shares_body_with dropped why model blas application".split()


def image_mutator() -> Mutate:
    """Return a mutator of files that are ELF or Mach-O."""
    return mutator(changed_image)


def changed_image(source: random.Random, data: bytes) -> bytes:
    """Return the file with one field changed, or words of what its tables point to."""
    from bench.fuzz_mutations import NUMBERS, words

    try:
        fields = _elf_fields(data) if data.startswith(_ELF) else _macho_fields(data)
    except struct.error:  # a table beyond the file's end
        fields = []
    fields = [field for field in fields if field[0] + field[1] <= len(data)]
    if source.random() < 0.4 and (noted := _changed_note(source, data)) is not None:
        return noted
    if not fields or source.random() < 0.3:  # what the tables point to: names, symbols, notes, code
        return words(source, data)
    at, size = source.choice(fields)
    value = int.from_bytes(data[at : at + size], "little")
    other = source.choice(fields)
    exchanged = int.from_bytes(data[other[0] : other[0] + other[1]], "little")
    numbers = (*NUMBERS, value + 1, value - 1, value ^ 1 << source.randrange(8 * size), exchanged, len(data))
    made = bytearray(data)
    made[at : at + size] = (source.choice(numbers) % (1 << 8 * size)).to_bytes(size, "little")
    return bytes(made)


def _changed_note(source: random.Random, data: bytes) -> bytes | None:
    """Return the file with a value of its JSON changed, in the same number of bytes; None where it has none.

    The JSON's key "room" has a text, from which a longer value takes its bytes.
    """
    starts = [at for at in range(len(data)) if data[at : at + 2] == b'{"']
    for at in starts:
        try:
            tree, size = json.JSONDecoder().raw_decode(data[at : at + _LONGEST_NOTE].decode("latin-1"))
        except (ValueError, RecursionError):
            continue
        changed = changed_tree(source, tree, _NOTE_KEYS)
        if isinstance(changed, dict):
            changed.pop("room", None)
        text = json.dumps(changed, separators=(",", ":")).encode()
        room = size - len(text) - len(b',"room":""')
        if room < 0 or len(text) < 3:
            return None
        text = text[:-1] + b',"room":"' + b"x" * room + b'"}'
        return data[:at] + text + data[at + size :]
    return None


def _elf_fields(data: bytes) -> list[tuple[int, int]]:
    segments, sections = struct.unpack_from("<QQ", data, 32)
    segment_count, _, section_count = struct.unpack_from("<HHH", data, 56)
    fields = _entries(0, 1, _ELF_HEADER)
    fields += _entries(segments, min(segment_count, 32), _ELF_SEGMENT)
    return fields + _entries(sections, min(section_count, 64), _ELF_SECTION)


def _macho_fields(data: bytes) -> list[tuple[int, int]]:
    if not data.startswith(_MACH_O):
        return []
    (count,) = struct.unpack_from("<I", data, 16)
    fields, at = _entries(0, 1, (4,) * 8), _MACH_O_HEADER_BYTES
    for _ in range(min(count, 64)):
        (size,) = struct.unpack_from("<I", data, at + 4)
        fields += _entries(at, 1, (4,) * (min(size, 400) // 4))
        at += max(size, 8)
    return fields


def _entries(at: int, count: int, sizes: Sequence[int]) -> list[tuple[int, int]]:
    fields = []
    for _ in range(count):
        for size in sizes:
            fields.append((at, size))
            at += size
    return fields
