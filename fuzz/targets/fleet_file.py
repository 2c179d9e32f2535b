"""Fleets' TOML files, with the addresses and runners that they name."""

from fuzz.mutation.trees import toml_mutator
from fuzz.targets import call_target
from fuzz.targets._files import file_with

PACKAGES = (
    "mavcg.lab.fleet.fleet_file",
    "mavcg.lab.connections.address",
    "mavcg.lab.runners.open",
    "mavcg.lab.runners.ssh",
    "mavcg.files.decode",
)
mutate = toml_mutator("tcp://10.0.0.1 tls://[::1]:1 ssh:a@b:22/tmp local adb: fleet:x wrap:qemu rk3588 board")


def run(data: bytes) -> None:
    """Read the fleet; nothing is connected."""
    from mavcg.lab.fleet.fleet_file import read_fleet

    path = file_with(data, "fleet.toml")
    call_target(lambda: read_fleet(path))
