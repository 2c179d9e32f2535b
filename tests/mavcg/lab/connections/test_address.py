"""Addresses of schedulers; plain TCP beyond this machine only where the user takes it on."""

import pytest

from mavcg.errors import MavcgError
from mavcg.lab.connections.address import FarmAddress, is_address, is_any, is_loopback, read_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("tls://farm", FarmAddress("farm", 8786, True)),
        ("tls://farm:1/", FarmAddress("farm", 1, True)),
        ("tls://[2001:db8::5]:9000", FarmAddress("2001:db8::5", 9000, True)),
        ("tcp://127.0.0.1:8786", FarmAddress("127.0.0.1", 8786, False)),
        ("tcp://[::1]", FarmAddress("::1", 8786, False)),
        ("dask://localhost", FarmAddress("localhost", 8786, False)),
    ],
)
def test_addresses(text: str, address: FarmAddress) -> None:
    assert read_address(text, False, text) == address
    assert read_address(address.url, False, text) == address


@pytest.mark.parametrize(
    "text", ["dask://farm", "tcp://10.0.0.5:8786", "tcp://0.0.0.0", "tcp://[::]", "tcp://127.0.0.1.evil.org:8786"]
)
def test_plain_tcp_to_another_machine_is_refused(text: str) -> None:
    with pytest.raises(
        MavcgError, match=r"^--workers .*: is plain TCP to another machine.*use tls://.*or add --insecu"
    ):
        read_address(text, False, f"--workers {text}")
    assert not read_address(text, True, text).encrypted


@pytest.mark.parametrize(
    "text",
    [
        "",
        "farm",
        "farm:8786",
        "http://farm",
        "tls://",
        "tls://a b",
        "tls://farm:0",
        "tls://farm:65536",
        "tls://user@farm",
        "tls://farm/path",
        "tls://farm:1\n",
        "tls://2001:db8::5",
    ],
)
def test_what_is_no_address(text: str) -> None:
    assert not is_address(text)
    with pytest.raises(MavcgError, match="is not an address of a scheduler; write tls://HOST:8786"):
        read_address(text, True, text)


def test_the_loopback_interface() -> None:
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.9.9.9", "::1")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "farm", "127.0.0.1.org", "::ffff:10.0.0.1", "")))
    assert is_any("0.0.0.0") and is_any("::") and not is_any("127.0.0.1") and not is_any("farm")
