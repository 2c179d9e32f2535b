"""Disassembles a function of an ELF file, x86-64 or AArch64, and finds its innermost loops."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mavcg.errors import MavcgError
from mavcg.objects.elf import open_elf, symbols_of
from mavcg.program.profiling.demangle import base_symbol

_BYTES_MAX = 1 << 18  # of one function; a longer one is no kernel, and its disassembly takes seconds
_MACHINES = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}
_CALLS = ("bl", "call")
_JUMP = re.compile(r"j[a-z]+|b|b\.[a-z]+|cbn?z|tbn?z|loopn?e?")
_ENDS = ("ret", "br", "ud2", "hlt", "brk")
_TARGET = re.compile(r"(?:.*[ ,#])?#?(0x[0-9a-f]+|\d+)")


@dataclass(frozen=True)
class Instruction:
    """One instruction. operands: as capstone prints them."""

    address: int
    mnemonic: str
    operands: str


@dataclass(frozen=True)
class InnermostLoop:
    """A loop without a loop inside.

    body: its instructions. around: for each loop that holds it, from the inside out, the instructions that are in it
    and in no loop further inside, nor in another innermost loop.
    """

    body: tuple[Instruction, ...]
    around: tuple[tuple[Instruction, ...], ...]

    @property
    def depth(self) -> int:
        """Number of nested loops, this one included."""
        return 1 + len(self.around)


@dataclass(frozen=True)
class FunctionCode:
    """A function's instructions in the order of addresses. arch: "x86_64" or "aarch64"."""

    arch: str
    instructions: tuple[Instruction, ...]


def innermost_loops(code: FunctionCode) -> tuple[InnermostLoop, ...]:
    """Return the natural loops (of jumps to a block that dominates the jump's) without a loop inside."""
    blocks, successors = _blocks(code)
    loops = _natural_loops(successors)
    inner = {head: body for head, body in loops.items() if not any(o in body for o in loops if o != head)}
    in_inner = frozenset().union(*inner.values())

    def instructions(numbers: Iterable[int]) -> tuple[Instruction, ...]:
        return tuple(i for number in sorted(numbers) for i in blocks[number])

    found = []
    for head, body in inner.items():
        holding = sorted((other for o, other in loops.items() if o != head and body <= other), key=len)
        steps = zip((body, *holding), holding, strict=False)
        around = tuple(instructions(outer - inside - in_inner) for inside, outer in steps)
        found.append(InnermostLoop(instructions(body), around))
    return tuple(found)


def _blocks(code: FunctionCode) -> tuple[list[tuple[Instruction, ...]], list[list[int]]]:
    """Return the basic blocks in the order of addresses, and the numbers of those that may follow each.

    A call of a local function without a symbol, whose code is the function's own, may be followed by it.
    """
    addresses = {i.address for i in code.instructions}
    inside = addresses - {i.address for i in code.instructions[:1]}  # a call of the first one is a recursion
    targets: dict[int, int] = {}  # address of a jump or call -> its target in the function
    for i in code.instructions:
        reached = inside if i.mnemonic in _CALLS else addresses if _JUMP.fullmatch(i.mnemonic) else ()
        if reached and (place := _TARGET.fullmatch(i.operands)) and int(place[1], 0) in reached:
            targets[i.address] = int(place[1], 0)
    starts, blocks = set(targets.values()), list[list[Instruction]]()
    ended = True
    for i in code.instructions:
        if ended or i.address in starts:
            blocks.append([])
        blocks[-1].append(i)
        ended = i.address in targets or _JUMP.fullmatch(i.mnemonic) is not None or i.mnemonic in _ENDS
    number = {block[0].address: n for n, block in enumerate(blocks)}
    successors = []
    for n, block in enumerate(blocks):
        last = block[-1]
        after = [number[targets[last.address]]] if last.address in targets else []
        if last.mnemonic not in (*_ENDS, "jmp", "b") and n + 1 < len(blocks):
            after.append(n + 1)
        successors.append(after)
    return [tuple(block) for block in blocks], successors


def _natural_loops(successors: Sequence[Sequence[int]]) -> dict[int, frozenset[int]]:
    """Return header -> blocks of its loop. successors: by block; block 0 is the entry."""
    order = _reverse_postorder(successors)
    place = {block: n for n, block in enumerate(order)}
    before: dict[int, list[int]] = {block: [] for block in order}
    for block in order:
        for after in successors[block]:
            before[after].append(block)
    above = _dominators(order, before, place)

    def dominates(head: int, block: int) -> bool:
        while place[block] > place[head]:
            block = above[block]
        return block == head

    loops: dict[int, frozenset[int]] = {}
    for block in order:
        for head in successors[block]:
            if dominates(head, block):
                body, pending = {head}, [block]
                while pending:
                    inside = pending.pop()
                    if inside not in body:
                        body.add(inside)
                        pending += before[inside]
                loops[head] = loops.get(head, frozenset()) | body
    return loops


def _reverse_postorder(successors: Sequence[Sequence[int]]) -> list[int]:
    """Return the blocks that the entry reaches, each before those that follow it, jumps back aside."""
    done: list[int] = []
    seen: set[int] = set()
    pending = [(0, False)] if successors else []
    while pending:
        block, finished = pending.pop()
        if finished:
            done.append(block)
        elif block not in seen:
            seen.add(block)
            pending.append((block, True))
            pending += [(after, False) for after in successors[block]]
    return done[::-1]


def _dominators(order: Sequence[int], before: Mapping[int, Sequence[int]], place: Mapping[int, int]) -> dict[int, int]:
    """Return block -> its immediate dominator (Cooper, Harvey, Kennedy: A Simple, Fast Dominance Algorithm)."""
    above = {order[0]: order[0]} if order else {}
    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            known = [other for other in before[block] if other in above]
            new = known[0]
            for other in known[1:]:
                while new != other:
                    if place[new] > place[other]:
                        new = above[new]
                    else:
                        other = above[other]
            if above.get(block) != new:
                above[block], changed = new, True
    return above


@cache
def _functions(path: Path) -> tuple[Any, Mapping[str, tuple[int, int, int]]]:
    """Return the open file, and function without suffixes -> (section, address, size) of the longest of that name."""
    elf = open_elf(path)
    places: dict[str, tuple[int, int, int]] = {}
    for symbol in symbols_of(elf):
        index, size = symbol["st_shndx"], symbol["st_size"]
        if symbol["st_info"]["type"] != "STT_FUNC" or not isinstance(index, int) or not size:
            continue
        name = base_symbol(str(symbol.name))
        if size > places.get(name, (0, 0, 0))[2]:
            places[name] = (index, symbol["st_value"], size)
    return elf, places


def function_code(path: Path, symbol: str) -> FunctionCode | None:
    """Return a function's code; None where the file or its function is not there, or is for another machine.

    symbol: linkage name without suffixes of clones and versions; of those the longest is read.
    """
    try:
        elf, places = _functions(path)
        arch = _MACHINES.get(str(elf["e_machine"]))
        place = places.get(symbol)
        if arch is None or place is None or not elf.little_endian or place[2] > _BYTES_MAX:
            return None
        index, address, size = place
        section = elf.get_section(index)
        begin = address - (0 if elf["e_type"] == "ET_REL" else section["sh_addr"])
        data = section.data()[begin : begin + size]
    except MavcgError:
        return None
    # For a damaged file pyelftools may raise any class.
    except Exception:
        return None
    return FunctionCode(arch, tuple(_instructions(arch, data, address)))


def _instructions(arch: str, data: bytes, address: int) -> Iterator[Instruction]:
    """Yield the instructions; on AArch64 words that are none are passed over."""
    import capstone

    if arch == "x86_64":
        decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    else:
        decoder = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN)
        decoder.skipdata = True
    for at, _, mnemonic, operands in decoder.disasm_lite(data, address):
        yield Instruction(at, mnemonic, operands)
