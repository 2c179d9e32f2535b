"""Latencies from the cycles of chains: each chain is a sum of latencies, and the sums are solved for all of them."""

from collections.abc import Mapping, Sequence

import numpy as np

from mavcg.hardware.timing import Timing
from mavcg.lab.calibrate.altered_core import forward_key, row_key, values_of
from mavcg.lab.calibrate.calibrated_model import CalibratedModel
from mavcg.lab.calibrate.chains import Chain, Key, chain_loop, choose_chains, terms
from mavcg.lab.calibrate.loops import LoopTimer
from mavcg.lab.calibrate.templates import Template

_ROUNDS = 3  # each from the model with the latencies of the round before
_SAME = 0.3  # of a cycle: chains that differ by less are the same, and what is more is a whole number of cycles
_TOLD = 1e-6


def find_latencies(timer: LoopTimer, model: CalibratedModel, known: Mapping[str, Template]) -> CalibratedModel:
    """Return the model with the latencies and forwardings that chains of its instructions show.

    known: templates of the classes that are measured, by class.
    """
    chains = choose_chains(known, model.timing)
    loops = [chain_loop(chain) for chain in chains]
    measured = timer.cycles(loops)
    for _ in range(_ROUNDS):
        changes = latency_changes(chains, measured, model.timer().cycles(loops), model.timing)
        values = values_of(model.core, model.timing)
        facts = {}
        for ends, change in changes.items():
            key = row_key(ends[0], "latency") if not ends[1] else forward_key(*ends)
            facts[key] = max(0.0, values[key] + change)
        settled = all(values[key] == value for key, value in facts.items())
        model = model.with_facts(facts)
        if settled:
            break
    return model


def latency_changes(
    chains: Sequence[Chain], measured: Mapping[str, float], modelled: Mapping[str, float], timing: Timing
) -> dict[Key, int]:
    """Return by how many cycles each fact differs from the model's, by its key.

    measured, modelled: cycles of the loop of each chain, by its name; a chain without is left out, and facts that then
    are known as sums alone are left out too.
    """
    rows, sums = [], []
    for chain in chains:
        name = chain_loop(chain).name
        if name in measured and name in modelled:
            change = measured[name] - modelled[name]
            rows.append(terms(chain, timing))
            sums.append(0.0 if abs(change) < _SAME else round(change))
    columns = {key: at for at, key in enumerate(dict.fromkeys(key for row in rows for key in row))}
    if not columns:
        return {}
    matrix = np.zeros((len(rows), len(columns)))
    for at, row in enumerate(rows):
        for key, count in row.items():
            matrix[at, columns[key]] = count
    inverse = np.linalg.pinv(matrix)
    solved, told = inverse @ np.array(sums), inverse @ matrix
    return {
        key: round(float(solved[at]))
        for key, at in columns.items()
        if abs(told[at, at] - 1) < _TOLD and np.abs(np.delete(told[at], at)).max(initial=0) < _TOLD
    }
