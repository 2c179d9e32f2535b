"""Chains of dependent instructions: their text, their terms, and what the sums of their cycles tell."""

import numpy as np
import pytest

from mavcg.lab.calibrate.chains import chain_loop, choose_chains, terms
from mavcg.lab.calibrate.latency_facts import latency_changes
from mavcg.lab.calibrate.templates import Template, extension_of, templates
from mavcg.passes.asm.analysis.dependences import code_of
from mavcg.passes.asm.isa.syntax import parse_instr
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing

CLASSES = ("alu", "ldr_x", "ldr_d", "fmla_q", "mul_x", "fmov_from_gpr", "fmov_to_gpr", "ins", "fcmp", "csel", "tbl2")


def templates_of(core: str, names: tuple[str, ...] = CLASSES) -> dict[str, Template]:
    kind = load_core(core)
    known = templates(load_timing(kind), frozenset(kind.extensions))
    return {name: known[name] for name in names}


def test_each_instruction_of_a_chain_reads_the_result_of_the_one_before() -> None:
    timing = load_timing(load_core("cortex-a55"))
    for chain in choose_chains(templates_of("cortex-a55"), timing):
        ops = [code_of(parse_instr(text)).op for text in chain_loop(chain).body]
        for before, after in zip(ops[-1:] + ops[:-1], ops, strict=True):
            assert set(before.writes) & {read.register for read in after.reads}, chain_loop(chain)


def test_terms_are_the_latencies_between_neighbours() -> None:
    timing = load_timing(load_core("cortex-a55"))
    chains = choose_chains(templates_of("cortex-a55"), timing)
    own = {chain[0].name: terms(chain, timing) for chain in chains if len(chain) == 1 and chain[0].role == ""}
    assert own["alu"] == {("alu", "integer", ""): 1}  # an A55 forwards sums to the next addition
    assert own["tbl2"] == {("tbl2", "", ""): 1}


@pytest.mark.parametrize("core", ["cortex-a55", "cortex-a76"])
def test_the_chains_of_a_core_tell_every_term(core: str) -> None:
    timing = load_timing(load_core(core))
    chains = choose_chains(templates_of(core), timing)
    assert len(chains) == len({key for chain in chains for key in terms(chain, timing)})


def test_changes_are_found_from_sums_alone() -> None:
    timing = load_timing(load_core("cortex-a76"))
    chains = choose_chains(templates_of("cortex-a76"), timing)
    keys = sorted({key for chain in chains for key in terms(chain, timing)})
    picked = np.random.default_rng(7).integers(-2, 9, len(keys))
    truth = {key: int(change) for key, change in zip(keys, picked, strict=True)}
    modelled = {chain_loop(chain).name: 40.0 for chain in chains}
    measured = {
        chain_loop(chain).name: 40.1 + sum(count * truth[key] for key, count in terms(chain, timing).items())
        for chain in chains
    }
    assert latency_changes(chains, measured, modelled, timing) == truth
    assert all(truth[key] == change for key, change in latency_changes(chains[:9], measured, modelled, timing).items())


def test_instructions_that_a_core_lacks_have_no_template() -> None:
    timing = load_timing(load_core("cortex-a76"))
    assert extension_of("dot_q") == "dotprod" and extension_of("fmla_q") is None
    assert "dot_q" not in templates(timing, frozenset({"aes"})) and "dot_q" in templates(timing, frozenset({"dotprod"}))
