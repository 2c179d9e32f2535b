"""Versions of the packages that generate machine code; measured and simulated costs depend on them."""

from functools import cache


@cache
def compiler_version() -> str:
    """Return the version of the compiler of kernels: in this process, and in builds."""
    return ", ".join(f"{name} {package_version(name) or 'none'}" for name in ("llvmlite", "ziglang"))


def package_version(package: str) -> str:
    """Return the version of an installed package; "" if it is not installed."""
    # Imported here, since it brings the parser of e-mails: 20 ms that most commands can do without.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return ""
