"""Chooses the CPUs of a core type to measure on, and compares a machine with its board's file."""

from mavcg.hardware.board import Board
from mavcg.hardware.core import GENERIC
from mavcg.hardware.cpu_list import cpus_text
from mavcg.lab.runners.facts import CpuFacts, MachineFacts
from mavcg.lab.runners.transport import RunnerError

CLOCK_DIFFERS = 0.02  # minimum relative difference of clocks that is reported; smaller ones are rounding
HOT_CELSIUS = 60.0
MOST_CELSIUS = 150.0  # higher readings are from sensors that are not connected


def cpus_of(facts: MachineFacts, board: Board, core: str, name: str, threads: int = 1) -> tuple[tuple[int, ...], str]:
    """Return the CPUs to measure on, and a warning or "".

    The CPUs with the highest numbers are chosen, because interrupts go to the first. core: name of the core type, or
    "generic" for any CPU. A CPU that is not recognised counts as what the board's file states. name: of the machine,
    for messages. Raises: RunnerError if there are fewer than `threads` usable CPUs.
    """
    here = [cpu for cpu in facts.cpus if core in (cpu.core, GENERIC)]
    usable = [cpu.cpu for cpu in here if cpu.online and cpu.allowed]
    if usable:
        return _last(usable, threads, core, name), ""
    if here:
        raise RunnerError(f"{name}: {cpus_text(cpu.cpu for cpu in here)}: {core}, {_why_not(here)}; switch one on")
    listed = [number for cluster in board.clusters if cluster.core == core for number in cluster.cpus]
    silent = [cpu.cpu for cpu in facts.cpus if cpu.core is None and cpu.online and cpu.allowed and cpu.cpu in listed]
    if silent:
        chosen = _last(silent, threads, core, name)
        return chosen, f"{name}: does not say what {cpus_text(chosen)} is: {core} at the word of {board.name}"
    has = ", ".join(facts.cores) or "none that is known"
    raise RunnerError(f"{name}: has no {core} (cores there: {has}); name another by --core, or the right --board")


def _last(cpus: list[int], threads: int, core: str, name: str) -> tuple[int, ...]:
    if len(cpus) < threads:
        raise RunnerError(f"{name}: --threads {threads}: has {len(cpus)} {core} that programs may use; give no more")
    return tuple(sorted(cpus, reverse=True)[:threads])


def _why_not(cpus: list[CpuFacts]) -> str:
    return "not allowed to programs" if any(cpu.online for cpu in cpus) else "switched off"


def differences(facts: MachineFacts, board: Board) -> tuple[str, ...]:
    """Return descriptions of the differences between a machine and its board's file."""
    messages = []
    arch = board.target.split("-")[0]
    if facts.arch != arch:
        return (f"is {facts.arch}, and {board.name} is {arch}",)
    known = {cpu.cpu: cpu for cpu in facts.cpus}
    for cluster in board.clusters:
        absent = [number for number in cluster.cpus if number not in known]
        if absent:
            messages.append(f"has no {cpus_text(absent)}, which {board.name} has ({cluster.core})")
        others: dict[str, list[int]] = {}
        for number in cluster.cpus:
            core = known[number].core if number in known else cluster.core
            if core != cluster.core:
                others.setdefault(core or "of no known core", []).append(number)
        for core, numbers in others.items():
            messages.append(f"{cpus_text(numbers)}: {core} here, {cluster.core} on {board.name}")
        clocks = {known[number].most_khz for number in cluster.cpus if number in known} - {None}
        for khz in sorted(clock for clock in clocks if clock is not None):
            if cluster.max_khz and abs(khz - cluster.max_khz) > CLOCK_DIFFERS * cluster.max_khz:
                clock = f"up to {khz / 1e6:.2f} GHz here, {cluster.max_khz / 1e6:.2f} on {board.name}"
                messages.append(f"{cpus_text(cluster.cpus)}: {clock}")
    on_board = {number for cluster in board.clusters for number in cluster.cpus}
    more = [number for number in known if number not in on_board]
    if more:
        messages.append(f"has {cpus_text(more)}, which {board.name} has not")
    return tuple(messages)


def hints(facts: MachineFacts) -> tuple[str, ...]:
    """Return descriptions of conditions that impair measurements, each with a remedy."""
    messages = []
    off = [cpu.cpu for cpu in facts.cpus if not cpu.online]
    if off:
        messages.append(f"{cpus_text(off)}: switched off")
    barred = [cpu.cpu for cpu in facts.cpus if cpu.online and not cpu.allowed]
    if barred:
        messages.append(f"{cpus_text(barred)}: not allowed to programs that are started so")
    governors: dict[str, list[int]] = {}
    for cpu in facts.cpus:
        if cpu.governor not in ("", "performance"):
            governors.setdefault(cpu.governor, []).append(cpu.cpu)
    for governor, cpus in governors.items():
        messages.append(f"{cpus_text(cpus)}: governor '{governor}' lowers the clock when idle; performance holds it")
    slowed = [cpu for cpu in facts.cpus if cpu.limit_khz and cpu.most_khz and cpu.limit_khz < cpu.most_khz]
    if slowed:
        least = min(cpu.limit_khz / cpu.most_khz for cpu in slowed if cpu.limit_khz and cpu.most_khz)
        cpus_held = cpus_text(cpu.cpu for cpu in slowed)
        messages.append(f"{cpus_held}: held to {least:.0%} of the clock, by heat or by a limit; let it cool")
    hot = [(celsius, zone) for zone, celsius in facts.celsius if HOT_CELSIUS <= celsius < MOST_CELSIUS]
    if hot:
        celsius, zone = max(hot)
        messages.append(f"{zone}: {celsius:.0f} degrees; let it cool down first")
    return tuple(messages)
