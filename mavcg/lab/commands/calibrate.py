"""The verb `mavcg calibrate`: find a core's facts by timed loops, on a board or in simulation."""

from typing import TYPE_CHECKING, Any

from mavcg.console.option_class import command_of
from mavcg.console.output import Progress, note, print_json
from mavcg.errors import MavcgError
from mavcg.lab.commands.calibrate_options import CalibrateOptions
from mavcg.lab.commands.calibrate_table import show_facts

if TYPE_CHECKING:
    from mavcg.lab.calibrate.altered_core import RequestedFact
    from mavcg.lab.calibrate.calibration import CoreCalibration

_SIMULATE = "simulate:"


def run_calibrate(options: CalibrateOptions) -> None:
    """Find the facts of the cores of a board, which mavcg's predictions and choices depend on, by timed loops.

    A static program measures on each core type: latencies and rates by instruction class, what is forwarded, pairs that
    issue together, the window, mispredicted branches, caches, memory, prefetch and the clock. The board needs Linux or
    Android, and nothing else; a phone needs adb. A core file for each core type and a file of the board are written
    below the first folder of MAVCG_PROFILES, where all other commands find them; the differences to mavcg's own facts
    are printed. `simulate:CORE` runs the same loops on mavcg's model of a core, whose facts --facts may alter: it shows
    whether the loops find them again.

    \b
    export MAVCG_PROFILES=~/silicon
    mavcg calibrate --runner adb
    mavcg calibrate --runner ssh:pi@10.0.0.7 --minutes 5 --core cortex-a76
    mavcg calibrate --runner simulate:cortex-a55 --facts facts.toml --json
    """
    if options.runner.startswith(_SIMULATE):
        _calibrate_simulated(options, options.runner.removeprefix(_SIMULATE))
        return
    from mavcg.lab.commands.calibrate_board import calibrate_board

    if options.facts is not None:
        raise MavcgError(f"--facts: alters a simulated core; --runner {options.runner} is none: leave it out")
    calibrate_board(options)


calibrate = command_of("calibrate", CalibrateOptions, run_calibrate)


def _calibrate_simulated(options: CalibrateOptions, name: str) -> None:
    """Find the facts of a simulated core, and print them beside those that it has. Raises: MavcgError."""
    from mavcg.cost.core_facts import simulated_core
    from mavcg.lab.calibrate.altered_core import alter_core, read_facts, values_of
    from mavcg.lab.calibrate.calibration import calibrate as find_facts
    from mavcg.lab.calibrate.calibration import with_own_rows
    from mavcg.lab.calibrate.simulated import ABSENT, SimulatedTimer
    from mavcg.profiles.core_timing import core_timing

    if options.core:
        raise MavcgError(f"--core: --runner {options.runner} names the core already; leave it out")
    core, timing = core_timing(name)
    requested = read_facts(options.facts) if options.facts is not None else ()
    facts = {key: fact.value for fact in requested for key in fact.keys}
    silicon, silicon_timing = alter_core(core, timing, facts)
    silicon_timing = with_own_rows(silicon_timing)
    timer = SimulatedTimer(silicon_timing, simulated_core(silicon))
    with Progress() as progress:
        found = find_facts(timer, core, timing, requested=frozenset(facts), absent=ABSENT, progress=progress)
    truth = {fact.name: fact.value for fact in requested} or _select_found(
        values_of(silicon, silicon_timing), found.found
    )
    document = simulated_json(found, requested, truth)
    if options.as_json:
        print_json(document)
        return
    show_facts(f"{name} (simulated)", "as simulated", document["truth"], document["found"])
    for fact in document["not_found"]:
        note(f"{fact}: no loop shows it on this core")


def _select_found(values: dict[str, float], found: Any) -> dict[str, float]:
    return {key: value for key, value in values.items() if key in found}


def simulated_json(
    calibration: "CoreCalibration", requested: "tuple[RequestedFact, ...]", truth: dict[str, float]
) -> dict[str, Any]:
    """Return the document of --json for a simulated core: the facts as found and as simulated, by their names.

    requested: the facts of --facts; () for all.
    """
    members = {fact.name: fact.keys for fact in requested} or {key: (key,) for key in truth}
    found = {}
    for name, keys in members.items():
        known = [calibration.found[key] for key in keys if key in calibration.found]
        if known:
            found[name] = sum(known) / len(known)
    return {
        "core": calibration.core,
        "found": found,
        "truth": truth,
        "not_found": [name for name in members if name not in found],
    }
