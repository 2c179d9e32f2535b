"""Finds out whether a scheduler answers at an address, and whether it has the same token, before Dask connects."""

import socket
import ssl
from pathlib import Path
from typing import Any

from mavcg.errors import MavcgError
from mavcg.lab.connections.address import FarmAddress
from mavcg.lab.connections.token import token_security

PROBE_S = 10.0  # seconds to wait for an answer
_HOW = "start one with `mavcg farm serve`"


def farm_security(address: FarmAddress, token: Path) -> Any:
    """Return Dask's Security for an address: by the token, or None for plain TCP. Raises: MavcgError as read_token."""
    return token_security(token) if address.encrypted else None


def check_scheduler(address: FarmAddress, security: Any, token: Path, named: str, wait_s: float = PROBE_S) -> str:
    """Connect to a scheduler once; return the address of this machine's side.

    named: where the user named the address, for errors. Raises: MavcgError if nothing answers there, if it does not use
    TLS, or if it has another token.
    """
    try:
        with socket.create_connection((address.host, address.port), wait_s) as plain:
            own = str(plain.getsockname()[0])
            if security is not None:
                context: ssl.SSLContext = security.get_connection_args("client")["ssl_context"]
                with context.wrap_socket(plain) as encrypted:
                    encrypted.recv(1)  # a refusal of our certificate comes after the handshake, in place of data
            return own
    except ssl.SSLCertVerificationError:
        raise MavcgError(f"{named}: the scheduler there has another token than {token}; copy its token") from None
    except ssl.SSLError as error:
        if "alert" in str(error).lower():
            raise MavcgError(
                f"{named}: the scheduler there does not accept the token {token}; copy its token"
            ) from None
        raise MavcgError(f"{named}: what answers there does not use TLS ({error.reason}); {_HOW}") from None
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise MavcgError(f"{named}: no scheduler answers there ({reason}); {_HOW}") from None
