"""The token of a farm: a key with its certificate, which scheduler, workers and clients all must have.

Both sides of each connection show the certificate, and accept no other one (TLS 1.3 with mutual authentication). The
token is made when a scheduler first needs it, and is copied to other machines as a file.
"""

import contextlib
import importlib
import os
import re
import ssl
import stat
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from mavcg.errors import MavcgError, import_problem
from mavcg.files.own_file import is_own_folder
from mavcg.files.scratch import scratch_folder

VARIABLE = "MAVCG_FARM_TOKEN"
_NAME = "mavcg-farm"
_YEARS = 10
_MOST_BYTES = 100_000
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_KEY = re.compile(r"-----BEGIN PRIVATE KEY-----\n[A-Za-z0-9+/=\n]+-----END PRIVATE KEY-----\n")
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----\n[A-Za-z0-9+/=\n]+-----END CERTIFICATE-----\n")


def token_path(environment: Mapping[str, str] | None = None) -> Path:
    """Return $MAVCG_FARM_TOKEN, or else mavcg/farm/token.pem in $XDG_CONFIG_HOME or ~/.config.

    Source: XDG Base Directory Specification.
    """
    variables = os.environ if environment is None else environment
    if named := variables.get(VARIABLE):
        return Path(named)
    home = variables.get("XDG_CONFIG_HOME", "")
    return (Path(home) if os.path.isabs(home) else Path.home() / ".config") / "mavcg" / "farm" / "token.pem"


def make_token(path: Path) -> bool:
    """Make a token unless there is one; return True if it was made. Its folder is made too, for this user alone.

    Raises: MavcgError if it cannot be written, or would lie in a folder that others can write to.
    """
    if os.path.lexists(path):
        return False
    if not is_own_folder(path.parent):
        raise MavcgError(f"{path.parent}: is not a folder of yours alone; name another file with --token")
    try:
        with scratch_folder(".mavcg-token-", path.parent) as folder:  # which only this user can enter
            with _private_file(folder / path.name, _new_token()) as made:
                os.link(made, path)  # unlike a rename, it replaces no token that another process has made meanwhile
        return True
    except FileExistsError:
        return False
    except OSError as error:
        raise MavcgError(f"{path}: cannot be written ({error.strerror}); name another file with --token") from error


def read_token(path: Path) -> tuple[str, str]:
    """Return the certificate and the key of a token.

    Raises: MavcgError if there is none, if other users can read it, and if it is not a token.
    """
    text = _private_text(path)
    key, certificate = _KEY.search(text), _CERTIFICATE.search(text)
    if key is None or certificate is None:
        raise MavcgError(f"{path}: is not a token of a farm; copy the file that `mavcg farm serve` names")
    return certificate[0], key[0]


def token_security(path: Path) -> Any:
    """Return Dask's Security by which only holders of the token connect, both ways. Raises: MavcgError as read_token.

    It is also raised for a damaged token; OSError if there is no room for a temporary file.
    """
    distributed: Any = importlib.import_module("distributed")
    certificate, key = read_token(path)
    try:
        contexts = _contexts(certificate, key)
    except (ssl.SSLError, ValueError):
        remedy = "copy it again, or remove it on all machines and start the scheduler anew"
        raise MavcgError(f"{path}: is damaged; {remedy}") from None

    class TokenSecurity(distributed.Security):  # type: ignore[misc]
        """Answers with contexts that are made once: Dask's own would write the key to a file for each connection."""

        def get_connection_args(self, role: str) -> dict[str, Any]:
            return _arguments(contexts[ssl.Purpose.SERVER_AUTH]) | {"extra_conn_args": {}}

        def get_listen_args(self, role: str) -> dict[str, Any]:
            return _arguments(contexts[ssl.Purpose.CLIENT_AUTH])

    return TokenSecurity(require_encryption=True)


def _arguments(context: ssl.SSLContext) -> dict[str, Any]:
    return {"ssl_context": context, "require_encryption": True}


def _contexts(certificate: str, key: str) -> Mapping[ssl.Purpose, ssl.SSLContext]:
    """Return the contexts by which holders of the same token connect, by the other side's purpose.

    Raises: ValueError or ssl.SSLError for a damaged token; OSError if a temporary file cannot be made.
    """
    contexts = {}
    with (
        scratch_folder("mavcg-token-") as folder,
        _private_file(folder / "token.pem", key + certificate) as pair,  # OpenSSL reads a key from files alone
    ):
        for purpose in (ssl.Purpose.SERVER_AUTH, ssl.Purpose.CLIENT_AUTH):
            context = contexts[purpose] = ssl.create_default_context(purpose, cadata=certificate)
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            context.check_hostname = False  # the certificate is the farm's, not a machine's
            context.verify_mode = ssl.CERT_REQUIRED
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # as Dask's own contexts: a default since Python 3.13
            context.load_cert_chain(pair)
    return contexts


@contextlib.contextmanager
def _private_file(path: Path, text: str) -> Iterator[Path]:
    """Write a file that this user alone can read, and remove it by its name: its folder may not be listed later."""
    path.touch(mode=0o600)
    try:
        path.write_text(text, encoding="ascii")
        yield path
    finally:
        with contextlib.suppress(OSError):
            path.unlink()


def _private_text(path: Path) -> str:
    """Return the text of a file that belongs to this user, and that no other user can read or write."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                raise MavcgError(f"{path}: is not a file of yours; copy the token into a file of your own")
            if status.st_mode & _OTHERS:
                raise MavcgError(f"{path}: other users can read or write it; chmod 600 {path}")
            return file.read(_MOST_BYTES).decode("ascii", "replace")
    except FileNotFoundError:
        remedy = "copy it from the machine of `mavcg farm serve`, which makes it, or name it with --token"
        raise MavcgError(f"{path}: there is no token of a farm; {remedy} ({VARIABLE} does so too)") from None
    except OSError as error:
        raise MavcgError(f"{path}: cannot be read ({error.strerror}); name another token with --token") from None


def _new_token() -> str:
    """Return a new key and a certificate that it has signed itself, as PEM. Raises: MavcgError."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID
    except ImportError as error:
        absent = "mavcg farm: needs cryptography, which is not installed; pip install 'mavcg[explore]'"
        raise import_problem(error, absent) from None
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _NAME)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=366))  # boards without a battery have clocks of the past
        .not_valid_after(now + timedelta(days=365 * _YEARS))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(_NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return (private + certificate.public_bytes(serialization.Encoding.PEM)).decode()
