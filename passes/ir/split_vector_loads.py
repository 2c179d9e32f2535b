"""Load splitting in LLVM IR: splits 128-bit vector loads of innermost loops into two 64-bit loads.

Longer vectors, which LLVM loads 128 bits at a time, are divided into such pieces first.

    %v = load <4 x float>, ptr %p, align 4
      ->
    %v.low = load <2 x float>, ptr %p, align 4                              ldr d0, [x1]
    %v.at = getelementptr inbounds i8, ptr %p, i64 8
    %v.half = load i64, ptr %v.at, align 4                                  ldr x8, [x1, #8]
    %v.high = call i64 asm "", "=r,0"(i64 %v.half)
    %v.wide = shufflevector <2 x float> %v.low, <2 x float> poison, <4 x i32> <i32 0, i32 1, i32 poison, i32 poison>
    %v.words = bitcast <4 x float> %v.wide to <2 x i64>
    %v.both = insertelement <2 x i64> %v.words, i64 %v.high, i64 1          mov v0.d[1], x8
    %v = bitcast <2 x i64> %v.both to <4 x float>

Without the empty assembly, LLVM would join the halves or select `ld1 {v0.d}[1]` for the second one, which a Cortex-A55
executes as slowly as the whole load. If the first half were an i64, it would be loaded into a general register too.
Source: "Microarchitecture-aware code generation ..." section 3.2.2; docs/design/machine-passes.md compares this with
the same split in assembly.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mavcg.passes.ir.module_text import Entity, ModuleText, parse_module

_LABEL = re.compile(r'^("[^"]*"|[-a-zA-Z$._0-9]+):(?: |$)')
_TARGET = re.compile(r'\blabel %("[^"]*"|[-a-zA-Z$._0-9]+)')


@dataclass(frozen=True)
class IrBlock:
    """A basic block: its label ("" for an entry block without one), its lines [first, end) with the label's line."""

    label: str
    first: int
    end: int
    successors: tuple[str, ...]


def blocks_of(lines: Sequence[str]) -> tuple[IrBlock, ...]:
    """Return the basic blocks of a body as LLVM prints it: a definition's lines after the header."""
    starts = [(0, "")] + [(number, match[1]) for number, line in enumerate(lines) if (match := _LABEL.match(line))]
    if len(starts) > 1 and starts[1][0] == 0:
        del starts[0]
    ends = [first for first, _ in starts[1:]] + [len(lines)]
    return tuple(
        IrBlock(label, first, end, tuple(_TARGET.findall("\n".join(lines[first:end]))))
        for (first, label), end in zip(starts, ends, strict=True)
    )


def innermost_blocks(blocks: Sequence[IrBlock]) -> frozenset[str]:
    """Return the labels of the blocks of innermost loops.

    A loop is a strongly connected component; its headers are the blocks entered from outside. A cycle that remains
    after its headers are removed is an inner loop (Steensgaard, 1993). A loop with two entries counts as one loop.
    """
    edges = {block.label: block.successors for block in blocks}
    innermost: set[str] = set()
    pending = [set(edges)]
    while pending:
        inside = pending.pop()
        within = {label: [s for s in edges[label] if s in inside] for label in inside}
        loops = [part for part in _components(within) if len(part) > 1 or part[0] in within[part[0]]]
        for loop in loops:
            without_headers = set(loop) - _headers(loop, edges)
            inner = {label: [s for s in edges[label] if s in without_headers] for label in without_headers}
            if all(len(part) == 1 and part[0] not in inner[part[0]] for part in _components(inner)):
                innermost |= set(loop)
            else:
                pending.append(without_headers)
    return frozenset(innermost)


def _headers(loop: Sequence[str], edges: Mapping[str, Sequence[str]]) -> set[str]:
    """Return the blocks of a loop that blocks outside it branch to."""
    members = set(loop)
    return {s for label, successors in edges.items() if label not in members for s in successors if s in members}


def _components(edges: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Return the strongly connected components (Tarjan, 1972), without recursion for long functions."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    components: list[list[str]] = []
    for root in edges:
        if root in order:
            continue
        order[root] = lowest[root] = len(order)
        stack.append(root)
        on_stack.add(root)
        path = [(root, iter(edges[root]))]
        while path:
            label, successors = path[-1]
            for successor in successors:
                if successor not in order:
                    order[successor] = lowest[successor] = len(order)
                    stack.append(successor)
                    on_stack.add(successor)
                    path.append((successor, iter(edges[successor])))
                    break
                if successor in on_stack:
                    lowest[label] = min(lowest[label], order[successor])
            else:
                path.pop()
                if path:
                    lowest[path[-1][0]] = min(lowest[path[-1][0]], lowest[label])
                if lowest[label] == order[label]:
                    at = stack.index(label)
                    components.append(stack[at:])
                    on_stack -= set(stack[at:])
                    del stack[at:]
    return components


_NAME = r'(?:"[^"]*"|[-a-zA-Z$._0-9]+)'
# A load that is neither volatile nor atomic, from the default address space.
_LOAD = re.compile(
    rf"^(?P<indent>\s*)%(?P<name>{_NAME}) = load (?P<type><(?P<lanes>\d+) x (?P<element>\w+)>), "
    r"ptr (?P<pointer>(?!addrspace)[^,]+), align (?P<align>\d+)(?P<metadata>(?:, !.*)?)$"
)
_ELEMENT_BITS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64, "half": 16, "bfloat": 16, "float": 32, "double": 64}
# Metadata of the whole load that holds for each half; not !nontemporal, which has its own instruction (ldnp).
_METADATA = re.compile(r", (!(?:tbaa|alias\.scope|noalias|invariant\.load|llvm\.access\.group|dbg) !\d+)")
_SHUFFLE = re.compile(rf"= shufflevector <(?P<lanes>\d+) x \w+> %(?P<name>{_NAME}), .*, <(?P<picked>\d+) x i32> ")
_PARTS = ("start", "low", "at", "half", "high", "wide", "words", "both")


def split_vector_loads(text: str) -> str:
    """Split the vector loads of every innermost loop of a little-endian AArch64 module.

    text: optimised IR as LLVM prints it, just before code generation. Volatile, atomic and non-temporal loads stay, as
    do loads whose lanes a shufflevector splits into narrower vectors: LLVM makes structure loads (ld2) of those.
    """
    module = parse_module(text)
    return str(replace(module, entities={name: _split_entity(entity) for name, entity in module.entities.items()}))


def count_splits(before: str, after: str) -> int:
    """Return the number of loads that `split_vector_loads` has split; before, after: its input and its output."""
    return _vector_loads(parse_module(before)) - _vector_loads(parse_module(after))


def _vector_loads(module: ModuleText) -> int:
    return sum(_is_whole(line) for entity in module.entities.values() for line in entity.text.split("\n"))


def _is_whole(line: str) -> bool:
    """True for a load of 128 bits, or of 128 bits times a power of two, so that its pieces can be joined in pairs."""
    match = _LOAD.match(line)
    pieces, odd_bits = divmod(int(match["lanes"]) * _ELEMENT_BITS.get(match["element"], 0), 128) if match else (0, 0)
    return pieces > 0 and odd_bits == 0 and pieces & (pieces - 1) == 0


def _split_entity(entity: Entity) -> Entity:
    if entity.kind != "define" or " = load <" not in entity.text:
        return entity
    lines = entity.body.split("\n")
    blocks = blocks_of(lines)
    inner = innermost_blocks(blocks)
    narrowed = {m["name"] for line in lines if (m := _SHUFFLE.search(line)) and int(m["picked"]) < int(m["lanes"])}
    for block in blocks:
        if block.label in inner:
            here = range(block.first, block.end)
            lines[block.first : block.end] = [
                _halves(lines[n], narrowed, entity.body) if _is_whole(lines[n]) else lines[n] for n in here
            ]
    return replace(entity, text="\n".join([entity.header, *lines]))


def _halves(line: str, narrowed: set[str], body: str) -> str:
    """Return the lines that replace a load, or the load itself if it cannot be split."""
    match = _LOAD.match(line)
    assert match
    name, element = match["name"], match["element"]
    stem, lanes = name.strip('"'), int(match["lanes"])
    count = lanes * _ELEMENT_BITS[element] // 128
    if name in narrowed or "!nontemporal" in match["metadata"] or _occurs(stem, body):
        return line
    new_lines: list[str] = []
    values = [f"%{name}"] if count == 1 else [f'%"{stem}.{n}"' for n in range(count)]
    for number, value in enumerate(values):
        new_lines += _half_loads(match, value, 16 * number, lanes // count)
    size = lanes // count
    while len(values) > 1:  # join neighbours: <4 x float> twice is <8 x float>
        pairs = list(zip(values[::2], values[1::2], strict=True))
        mask = ", ".join(f"i32 {n}" for n in range(2 * size))
        values = [f"%{name}"] if len(pairs) == 1 else [f'%"{stem}.{n}.of{len(pairs)}"' for n in range(len(pairs))]
        new_lines += [
            f"{value} = shufflevector <{size} x {element}> {a}, <{size} x {element}> {b}, <{2 * size} x i32> <{mask}>"
            for value, (a, b) in zip(values, pairs, strict=True)
        ]
        size *= 2
    return "\n".join(match["indent"] + new_line for new_line in new_lines)


def _half_loads(match: re.Match[str], value: str, offset: int, lanes: int) -> list[str]:
    """Return the lines that load 128 bits, as two halves, at an offset in bytes from a load's pointer."""
    element, pointer, align = match["element"], match["pointer"], int(match["align"])
    facts = "".join(f", {node}" for node in _METADATA.findall(match["metadata"]))
    stem = value[1:].strip('"')
    part = {part_name: f'%"{stem}.{part_name}"' for part_name in _PARTS}
    address = []
    low_pointer = pointer
    if offset:
        address.append(f"{part['start']} = getelementptr inbounds i8, ptr {pointer}, i64 {offset}")
        low_pointer = part["start"]
    # LLVM loads <2 x float> and the like with `ldr d`, an i64 with `ldr x`.
    whole, low = f"<{lanes} x {element}>", f"<{lanes // 2} x {element}>"
    mask = ", ".join([f"i32 {n}" for n in range(lanes // 2)] + ["i32 poison"] * (lanes // 2))
    return [
        *address,
        f"{part['low']} = load {low}, ptr {low_pointer}, align {min(align, 16) if offset else align}{facts}",
        f"{part['at']} = getelementptr inbounds i8, ptr {pointer}, i64 {offset + 8}",
        f"{part['half']} = load i64, ptr {part['at']}, align {min(align, 8)}{facts}",
        f'{part["high"]} = call i64 asm "", "=r,0"(i64 {part["half"]})',
        f"{part['wide']} = shufflevector {low} {part['low']}, {low} poison, <{lanes} x i32> <{mask}>",
        f"{part['words']} = bitcast {whole} {part['wide']} to <2 x i64>",
        f"{part['both']} = insertelement <2 x i64> {part['words']}, i64 {part['high']}, i64 1",
        f"{value} = bitcast <2 x i64> {part['both']} to {whole}",
    ]


def _occurs(stem: str, body: str) -> bool:
    """True if a body already has a value with a name that the split of %stem would use."""
    own = rf"{re.escape(stem)}(?:\.\d+)?\.(?:{'|'.join(_PARTS)}|\d+|of\d+)"
    return re.search(rf'%"?{own}(?![-a-zA-Z$._0-9])', body) is not None
