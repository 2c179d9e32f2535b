"""Choose the provider of groups' costs by its name, as --costs gives it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mavcg.accelerators.codegen.objective import Objective
from mavcg.accelerators.costs.computed import DeviceGroupCosts, SimulatedGroupCosts
from mavcg.accelerators.costs.kept import GroupCostFile, KeptGroupCosts
from mavcg.accelerators.costs.learned import LearnedGroupCosts
from mavcg.accelerators.fusion.costs import GroupCosts, ModelledGroupCosts
from mavcg.accelerators.host.runtime import DeviceDriver
from mavcg.accelerators.target import VTA, IsaTarget
from mavcg.errors import MavcgError

PROVIDERS = ("model", "simulated", "learned", "device")


@dataclass(frozen=True)
class CostRequest:
    """The user's choice of costs.

    provider: one of PROVIDERS. file: SQLite file that keeps costs. driver: driver of the device, LIBRARY[:ARGUMENT].
    objective: what costs count.
    """

    provider: str
    file: Path | None = None
    driver: str | None = None
    objective: Objective = "time"


@contextmanager
def group_costs(request: CostRequest, target: IsaTarget) -> Iterator[GroupCosts]:
    """Yield the provider of costs for a target; simulated and measured costs are kept in the request's file.

    Raises: MavcgError for an unknown provider, and for a driver or an objective that the provider does not
    use.
    """
    if request.provider not in PROVIDERS:
        raise MavcgError(f"--costs {request.provider}: no such provider; known: {', '.join(PROVIDERS)}")
    if (request.provider == "device") != (request.driver is not None):
        raise MavcgError("--costs device: needs --driver LIBRARY[:ARGUMENT], which no other provider takes")
    if request.objective != "time" and request.provider != "simulated":
        raise MavcgError(
            f"--objective {request.objective}: --costs {request.provider} knows times only; give --costs simulated"
        )
    if request.provider == "device" and target.isa == VTA:
        raise MavcgError(f"--costs device: drives mavcg's own accelerators, not {target.name}; give --costs simulated")
    if request.provider == "model":
        if request.file is not None:
            raise MavcgError(f"--cost-db {request.file}: modelled costs are not stored; give --costs simulated")
        yield ModelledGroupCosts(target)
        return
    driver = None if request.driver is None else DeviceDriver.of(request.driver)
    exact: GroupCosts = (
        SimulatedGroupCosts(target, request.objective) if driver is None else DeviceGroupCosts(target, driver)
    )
    simulated = "simulated" if request.objective == "time" else f"simulated {request.objective}"
    name = simulated if driver is None else f"device {driver.library}:{driver.argument}"
    if request.file is None:
        yield LearnedGroupCosts(target, exact) if request.provider == "learned" else exact
        return
    with GroupCostFile(request.file) as file:
        kept = KeptGroupCosts(exact, name, target, file)
        yield LearnedGroupCosts(target, kept) if request.provider == "learned" else kept
