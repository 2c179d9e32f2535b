"""Loops of dependent instructions, whose times are sums of latencies: enough of them to know each latency.

A chain is a ring of links; in each, an instruction reads the result of the one before. Its cycles are the sum of the
latencies between neighbours. Latencies between general and vector registers are known as sums only, a way there and a
way back, unless an instruction such as `ins` has operands of both kinds; so chains are chosen by rank: one is added if
no sum of the earlier ones has its terms.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mavcg.hardware.timing import Timing
from mavcg.lab.calibrate.loops import (
    CONSTANT_VECTORS,
    DOUBLES,
    FREE_GENERAL,
    FREE_VECTORS,
    ONES,
    ZEROES,
    TimedLoop,
)
from mavcg.lab.calibrate.templates import CONDITION, GENERAL, VECTOR, Template, domain_of

INDEX, ADDRESS = "@index", "@address"  # forms that read an index, and that make an address of a zero
_STEPS = 24  # least instructions of an iteration
_BRIDGES = ("fmov_to_gpr", "fmov_from_gpr", "alu_flags", "csel", "fcmp", "fcsel", f"alu{ADDRESS}", f"ldr_x{INDEX}")
_READERS = (
    *_BRIDGES,
    "shift",
    "mul_x",
    "mul_x_plain",
    "umov",
    "dup_gpr",
    "ins",
    "perm_q",
    "logic_q",
    "fadd_q",
    "add_q",
)
_FORMS = {
    f"ldr_x{INDEX}": ("ldr_x", "ldr x0, [x1, x2]", "x2"),
    f"ldr_d{INDEX}": ("ldr_d", "ldr d0, [x1, x2]", "x2"),
    f"ldr_q{INDEX}": ("ldr_q", "ldr q0, [x1, x2]", "x2"),
    f"alu{ADDRESS}": ("alu", "add x0, x1, x2", "x2"),
    f"alu_shifted{ADDRESS}": ("alu_shifted", "add x0, x1, x2, lsl #3", "x2"),
}
Key = tuple[str, str, str]  # a forwarding fact, or (class, "", "") for the latency of a class


@dataclass(frozen=True)
class ChainLink:
    """An instruction of a chain. read: the operand that takes the result of the link before. out: domain of its own."""

    name: str
    template: Template
    read: str
    role: str
    out: str

    @property
    def domain(self) -> str:
        """The domain of the operand."""
        return domain_of(self.read)

    @property
    def needs_address(self) -> bool:
        """True if the operand must be an address, and not an index."""
        return self.role == "addr" and not self.name.endswith(INDEX)

    @property
    def makes_address(self) -> bool:
        """True if the result may be taken as an address."""
        return self.name.endswith(ADDRESS) or self.template.producer == "writeback"


Chain = tuple[ChainLink, ...]


def links(templates: Mapping[str, Template]) -> list[ChainLink]:
    """Return the links of all templates: of each, the first operand of each role and domain, and each result."""
    forms = dict(templates)
    for name, (base, text, read) in _FORMS.items():
        if base in templates:
            role = "addr" if name.endswith(INDEX) else next(r for reg, r in templates[base].reads if reg == read)
            forms[name] = replace(templates[base], text=text, reads=((read, role),))
    found = []
    for name, template in forms.items():
        listed = {register for names in template.lists for register in names if register not in _in_place(template)}
        seen = set()
        for register, role in sorted(template.reads, key=lambda read: read[0] in listed):
            if register in listed or (role, domain_of(register)) in seen:
                continue
            seen.add((role, domain_of(register)))
            found += [ChainLink(name, template, register, role, domain) for domain, _ in template.writes]
    return found


def _in_place(template: Template) -> set[str]:
    """Return the registers that an instruction reads and writes."""
    return {register for register, _ in template.reads} & {register for _, register in template.writes}


def key_of(producer: ChainLink, consumer: ChainLink, timing: Timing) -> Key:
    """Return the fact that gives the latency from one link to the next."""
    made_by, read_by = producer.template.producer, consumer.template.op_class
    forward = timing.forward_of(made_by, read_by, consumer.role)
    return forward if forward is not None else (timing.of(made_by).name, "", "")


def terms(chain: Chain, timing: Timing) -> Counter[Key]:
    """Return how often each fact is a term of the chain's cycles."""
    return Counter(key_of(chain[at - 1], link, timing) for at, link in enumerate(chain))


def choose_chains(templates: Mapping[str, Template], timing: Timing) -> list[Chain]:
    """Return chains, short ones first, whose terms are independent of one another and as many as there can be."""
    candidates = list(_candidates(links(templates), timing))
    columns: dict[Key, int] = {}
    for _, known in candidates:
        for key in known:
            columns.setdefault(key, len(columns))
    basis = np.zeros((0, len(columns)))
    chosen = []
    for chain, known in candidates:
        row = np.zeros(len(columns))
        for key, count in known.items():
            row[columns[key]] = count
        row /= np.linalg.norm(row)
        for _ in range(2):  # once more for what rounding left
            row -= basis.T @ (basis @ row)
        if (norm := float(np.linalg.norm(row))) > 1e-6:
            basis = np.vstack([basis, row / norm])
            chosen.append(chain)
    return chosen


def _candidates(known: Sequence[ChainLink], timing: Timing) -> Iterator[tuple[Chain, Counter[Key]]]:
    """Yield chains of one to four links with their terms, those with fewer links first."""
    by_name: dict[str, list[ChainLink]] = {}
    for link in known:
        by_name.setdefault(link.name, []).append(link)
    bridges = [link for name in _BRIDGES for link in by_name.get(name, ())]
    readers = {link for name in _READERS for link in by_name.get(name, ())}
    pairs, seen = [], set()
    for first in known:
        for second in known:
            if _fits(first, second):
                key = key_of(first, second, timing)
                if second in readers or key not in seen:
                    seen.add(key)
                    pairs.append((first, second))
    chains: list[Chain] = [(link,) for link in known if _fits(link, link)]
    chains += [pair for pair in pairs if _fits(pair[1], pair[0])]
    chains += [
        (*pair, bridge) for pair in pairs for bridge in bridges if _fits(pair[1], bridge) and _fits(bridge, pair[0])
    ]
    chains += [
        (*pair, one, two)
        for pair in pairs
        if not _fits(pair[1], pair[0])
        for one in bridges
        if _fits(pair[1], one) and not _fits(one, pair[0])
        for two in bridges
        if _fits(one, two) and _fits(two, pair[0])
    ]
    met: set[frozenset[tuple[Key, int]]] = set()
    for chain in chains:
        known_terms = terms(chain, timing)
        identity = frozenset(known_terms.items())
        if identity not in met:
            met.add(identity)
            yield chain, known_terms


def _fits(producer: ChainLink, consumer: ChainLink) -> bool:
    """True if the consumer's operand may be the producer's result."""
    if producer.out != consumer.domain or (consumer.needs_address and not producer.makes_address):
        return False
    return not producer.template.producer == "writeback" or consumer.needs_address


def chain_loop(chain: Chain) -> TimedLoop:
    """Return the loop of a chain, which repeats it."""
    circles = max(1, -(-_STEPS // len(chain)))
    first = chain[0]
    start = {GENERAL: FREE_GENERAL[0], VECTOR: FREE_VECTORS[0], CONDITION: CONDITION}[first.domain]
    registers, lines = _Registers(), []
    at = start
    for step in range(circles * len(chain)):
        link = chain[step % len(chain)]
        last = step == circles * len(chain) - 1
        text, at = _place(link, at, registers, start if last else None)
        lines.append(text)
    addresses = any(link.template.loads or link.name.endswith(ADDRESS) for link in chain)
    values = ZEROES if addresses else DOUBLES if any("f64" in link.name for link in chain) else ONES
    setup = (f"mov {start}, x1",) if first.needs_address else ()
    name = " ".join(("chain", *(f"{link.name}.{link.role or 'any'}.{link.out}" for link in chain)))
    return TimedLoop(name, tuple(lines), circles, values, setup, iterations=16)


class _Registers:
    """Hands out free registers in turn: the first of four vectors in a row, the first of two general registers."""

    def __init__(self) -> None:
        self._next = {GENERAL: 0, VECTOR: 0}

    def next(self, domain: str, other_than: str) -> str:
        while True:
            free = FREE_GENERAL[::2] if domain == GENERAL else FREE_VECTORS[::4]
            register = free[self._next[domain] % len(free)]
            self._next[domain] += 1
            if register != other_than:
                return register


def _place(link: ChainLink, at: str, registers: _Registers, to: str | None) -> tuple[str, str]:
    """Return the text of a link that reads register `at`, and its result's register. to: that register, or None."""
    template = link.template
    renamed = {} if link.read == CONDITION else {link.read: at}
    result = template.result(link.out)
    in_place = _in_place(template)
    for domain, written in template.writes:
        if written in renamed or written == CONDITION:
            continue
        wanted = to if domain == link.out and to is not None else None
        renamed[written] = wanted or registers.next(domain, at)
    for names in template.lists:
        first = renamed.get(names[0])
        if first is not None:
            renamed |= {name: f"v{int(first[1:]) + n}" for n, name in enumerate(names)}
    constants = {GENERAL: iter(("x2", "x3", "x4", "x5")), VECTOR: iter(CONSTANT_VECTORS)}
    for register, role in template.reads:
        if register not in renamed and register != CONDITION and register not in in_place:
            renamed[register] = "x1" if role == "addr" else next(constants[domain_of(register)])
    if template.text.startswith("ldp"):  # the second register of a pair
        first = renamed[template.writes[0][1]]
        renamed[f"{first[0]}1"] = f"{first[0]}{int(first[1:]) + 1}"
    if link.name in _FORMS:
        renamed["x1"] = "x1"
    final = renamed.get(result or "", result or "")
    return template.with_registers(renamed), final
