"""Addresses of schedulers: which are written how, and which of them may be used without encryption."""

import ipaddress
import re
from dataclasses import dataclass

from mavcg.errors import MavcgError

DEFAULT_PORT = 8786
_ADDRESS = re.compile(r"(?P<scheme>tls|tcp|dask)://(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s/:\[\]@]+)(?::(?P<port>\d{1,5}))?/?")


@dataclass(frozen=True)
class FarmAddress:
    """The address of a scheduler. host: without brackets. encrypted: True for TLS, False for plain TCP."""

    host: str
    port: int
    encrypted: bool

    @property
    def url(self) -> str:
        """The address as Dask takes it: tls://HOST:PORT or tcp://HOST:PORT."""
        return f"{self.protocol}://{in_brackets(self.host)}:{self.port}"

    @property
    def protocol(self) -> str:
        """The name of the protocol: tls, or tcp."""
        return "tls" if self.encrypted else "tcp"

    @property
    def is_local(self) -> bool:
        """True if only this machine reaches it."""
        return is_loopback(self.host)


def in_brackets(host: str) -> str:
    """Return a host as it is written in addresses: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def is_loopback(host: str) -> bool:
    """True for localhost and for addresses of the loopback interface; other names are not looked up."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_any(host: str) -> bool:
    """True for the address by which a server listens on all interfaces."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def is_address(text: str) -> bool:
    """True if the text has the form of an address."""
    match = _ADDRESS.fullmatch(text)
    return match is not None and 0 < int(match["port"] or DEFAULT_PORT) < 65536


def read_address(text: str, insecure: bool, named: str) -> FarmAddress:
    """Parse tls://HOST:PORT, tcp://HOST:PORT or dask://HOST:PORT, which is plain TCP too; the port may be left out.

    insecure: allow plain TCP to other machines. named: where the user named it, for errors.
    Raises: MavcgError for another text, and for plain TCP to another machine, on which everybody on the way could read
    and change what is sent.
    """
    match = _ADDRESS.fullmatch(text)
    if match is None or not is_address(text):
        raise MavcgError(f"{named}: is not an address of a scheduler; write tls://HOST:{DEFAULT_PORT}")
    host = match["host"].strip("[]")
    address = FarmAddress(host, int(match["port"] or DEFAULT_PORT), match["scheme"] == "tls")
    refuse_plain(address, insecure, named)
    return address


def refuse_plain(address: FarmAddress, insecure: bool, named: str) -> None:
    """Raise MavcgError for plain TCP beyond this machine, unless the user takes it on with --insecure."""
    if not (address.encrypted or address.is_local or insecure):
        secure = FarmAddress(address.host, address.port, True).url
        raise MavcgError(
            f"{named}: is plain TCP to another machine, where everybody on the network can read and send work; start "
            f"the scheduler with `mavcg farm serve` and use {secure}, or add --insecure"
        )
