"""Versions of the packages that generate machine code; measured and simulated costs depend on them."""

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def compiler_version() -> str:
    """Return the version of the compiler of kernels: in this process, and in builds."""
    return ", ".join(f"{name} {_version(name)}" for name in ("llvmlite", "ziglang"))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"
