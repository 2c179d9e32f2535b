"""Constants of the cost model by kind of core, from profiles/fits; each file is read once per process."""

from functools import cache

from mavcg.hardware.cost_fit import IN_ORDER, OUT_OF_ORDER_AARCH64, X86, AllCoresFit, CostFit
from mavcg.hardware.machine import Machine
from mavcg.profiles.cost_fits import load_all_cores_fit, load_cost_fit


def core_kind(arch: str, in_order: bool) -> str:
    """Return the kind of a core, which is the name of its file in profiles/fits."""
    if arch == "x86_64":
        return X86
    return IN_ORDER if in_order else OUT_OF_ORDER_AARCH64


def fit_of(machine: Machine) -> CostFit:
    """Return the constants of a machine's kind of core."""
    return fit_of_kind(core_kind(machine.arch, machine.in_order))


@cache
def fit_of_kind(kind: str) -> CostFit:
    """Return the constants of a kind of core."""
    return load_cost_fit(kind)


@cache
def all_cores_fit() -> AllCoresFit:
    """Return the constants that hold for every core."""
    return load_all_cores_fit()
