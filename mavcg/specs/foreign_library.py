"""A shared library of this machine whose CBLAS sgemm a primitive calls."""

from dataclasses import dataclass

from mavcg.specs.serialize import spec_format


@spec_format("foreign_library")
@dataclass(frozen=True)
class ForeignLibrary:
    """A shared library with a CBLAS sgemm.

    name, version: of the product; version "" where the library does not say it. digest: first digits of the file's
    SHA-256. symbol: under which it exports sgemm. wide: its integers have 64 bits, else 32.
    """

    name: str
    version: str
    digest: str
    path: str
    symbol: str
    wide: bool = False

    @property
    def label(self) -> str:
        """Name, version and digest, as names of primitives and the cost database have them."""
        return "-".join(filter(None, (self.name, self.version, self.digest)))

    @property
    def call_symbol(self) -> str:
        """Linkage name of the function that kernels call; it calls sgemm."""
        return f"mavcg_foreign_{self.name}_{self.digest}"
