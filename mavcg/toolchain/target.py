"""The target system of a library: architecture, operating system and libc, parsed from a name as ziglang spells it."""

import platform
from dataclasses import dataclass

from mavcg.errors import MavcgError

ARCHES = ("aarch64", "x86_64")
SYSTEMS = ("linux-gnu", "linux-musl", "linux-android", "macos")


@dataclass(frozen=True)
class Target:
    """A parsed target such as aarch64-linux-gnu.2.17.

    arch: "aarch64" or "x86_64". system: one of SYSTEMS. libc_version: oldest glibc that the library runs with.
    """

    arch: str
    system: str
    libc_version: str = ""

    @property
    def zig_name(self) -> str:
        """Return the target in the spelling of `zig cc -target`."""
        version = f".{self.libc_version}" if self.libc_version else ""
        return f"{self.arch}-{self.system}{version}"

    @property
    def llvm_triple(self) -> str:
        """Return the target in LLVM's spelling."""
        vendor, system = ("apple", "macosx11.0.0") if self.system == "macos" else ("unknown", self.system)
        return f"{self.arch.replace('aarch64', 'arm64') if vendor == 'apple' else self.arch}-{vendor}-{system}"


def parse_target(name: str) -> Target:
    """Return the target with a name such as aarch64-linux-gnu.2.17, aarch64-linux-android or x86_64-linux-musl.

    Raises: MavcgError for an architecture or system that is not supported.
    """
    arch, _, rest = name.partition("-")
    system, _, version = rest.partition(".")
    if arch not in ARCHES or system not in SYSTEMS or (version and system != "linux-gnu"):
        raise MavcgError(
            f"--target {name}: not a target; give ARCH-SYSTEM with ARCH one of {', '.join(ARCHES)} and SYSTEM "
            f"one of {', '.join(SYSTEMS)}, glibc with its oldest version, such as aarch64-linux-gnu.2.17"
        )
    return Target(arch, system, version)


def host_target() -> Target:
    """Return the target of this machine, with its own libc as the oldest supported version."""
    arch = {"arm64": "aarch64", "AMD64": "x86_64"}.get(platform.machine(), platform.machine())
    libc, version = platform.libc_ver()
    if libc == "glibc":
        return Target(arch, "linux-gnu", version)
    return Target(arch, "macos" if platform.system() == "Darwin" else "linux-musl")


def default_target(arch: str) -> Target:
    """Return the default target for cores of this architecture: this machine's, or for Arm one with an old glibc."""
    host = host_target()
    return host if arch == host.arch else Target(arch, "linux-gnu", "2.17")
