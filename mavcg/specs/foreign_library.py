"""Description of a shared library on this machine whose CBLAS sgemm a primitive calls."""

from dataclasses import dataclass

from mavcg.specs.serialize import spec_format


@spec_format("foreign_library")
@dataclass(frozen=True)
class ForeignLibrary:
    """A shared library with a CBLAS sgemm.

    name, version: the library's name and version; "" for an unknown version. digest: first digits of the file's
    SHA-256. symbol: exported name of sgemm. wide: its integers have 64 bits, else 32.
    """

    name: str
    version: str
    digest: str
    path: str
    symbol: str
    wide: bool = False

    @property
    def label(self) -> str:
        """Name, version and digest, as they are part of primitives' names and of the cost database's keys."""
        return "-".join(filter(None, (self.name, self.version, self.digest)))

    @property
    def call_symbol(self) -> str:
        """Linkage name of the function that kernels call, which calls sgemm."""
        return f"mavcg_foreign_{self.name}_{self.digest}"
