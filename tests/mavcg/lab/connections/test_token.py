"""The token: made once, for this user alone; files that others can read are refused."""

import errno
import os
import ssl
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from mavcg.errors import MavcgError
from mavcg.lab.connections.token import make_token, read_token, token_path, token_security

pytest.importorskip("cryptography")
pytest.importorskip("distributed")


def test_it_is_made_once_and_for_this_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "config" / "farm" / "token.pem"
    made: list[bool] = []
    threads = [threading.Thread(target=lambda: made.append(make_token(path))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(made) == [False, False, False, True] and [path] == list(path.parent.iterdir())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    text = path.read_text()
    assert not make_token(path) and path.read_text() == text


def test_its_place(tmp_path: Path) -> None:
    assert token_path({"MAVCG_FARM_TOKEN": "a.pem"}) == Path("a.pem")
    assert token_path({"XDG_CONFIG_HOME": "/etc/xdg"}) == Path("/etc/xdg/mavcg/farm/token.pem")
    assert token_path({"XDG_CONFIG_HOME": "relative"}) == Path.home() / ".config/mavcg/farm/token.pem"


def test_only_its_holders_shake_hands(tmp_path: Path) -> None:
    """Both sides in memory: each accepts the other's certificate if and only if it is the own one."""
    for name in ("one", "two"):
        make_token(tmp_path / name / "token.pem")
    one, two = (token_security(tmp_path / name / "token.pem") for name in ("one", "two"))

    assert shaken(one.get_connection_args("client")["ssl_context"], one.get_listen_args("scheduler")["ssl_context"])
    strict = one.get_connection_args("client")["ssl_context"]
    strict.verify_flags |= ssl.VERIFY_X509_STRICT
    for client, server in ((one, two), (two, one)):
        contexts = client.get_connection_args("client")["ssl_context"], server.get_listen_args("worker")["ssl_context"]
        with pytest.raises(ssl.SSLError):
            shaken(*contexts)
    anonymous = ssl.create_default_context()
    anonymous.check_hostname, anonymous.verify_mode = False, ssl.CERT_NONE
    with pytest.raises(ssl.SSLError):
        shaken(anonymous, one.get_listen_args("scheduler")["ssl_context"])


def shaken(client: ssl.SSLContext, server: ssl.SSLContext) -> bool:
    """Exchange the messages of a handshake between two sides; True if a byte then passes. Raises: ssl.SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = client.wrap_bio(to_client, to_server), server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(5):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pass
    sides[0].write(b"x")
    assert sides[0].version() == "TLSv1.3"
    return sides[1].read(1) == b"x"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_one_that_others_can_read_or_write_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "token.pem"
    make_token(path)
    path.chmod(mode)
    with pytest.raises(MavcgError, match="other users can read or write it; chmod 600"):
        read_token(path)


def test_links_folders_and_other_files_are_refused(tmp_path: Path) -> None:
    make_token(tmp_path / "token.pem")
    (tmp_path / "link.pem").symlink_to(tmp_path / "token.pem")
    with pytest.raises(MavcgError, match="link.pem: cannot be read"):
        read_token(tmp_path / "link.pem")
    assert not make_token(tmp_path / "link.pem")
    with pytest.raises(MavcgError, match="Is a directory"):
        read_token(tmp_path)
    with pytest.raises(MavcgError, match="there is no token of a farm; copy it from the machine of `mavcg farm serve`"):
        read_token(tmp_path / "absent.pem")
    other = tmp_path / "other.pem"
    other.touch(mode=0o600)
    other.write_text("-----BEGIN CERTIFICATE-----\n")
    with pytest.raises(MavcgError, match="is not a token of a farm"):
        read_token(other)
    certificate, key = read_token(tmp_path / "token.pem")
    other.write_text(key + certificate[:100] + certificate[110:])
    with pytest.raises(MavcgError, match="is damaged"):
        token_security(other)


def test_a_folder_of_everybodys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 12345)
    with pytest.raises(MavcgError, match="is not a folder of yours alone"):
        make_token(tmp_path / "token.pem")
    assert not (tmp_path / "token.pem").exists()


def test_no_copy_of_the_key_stays_where_a_folder_cannot_be_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def refuse(path: Any, *rest: Any, **more: Any) -> int:
        if os.path.isdir(path):
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(path, *rest, **more)

    monkeypatch.setattr(os, "open", refuse)
    assert make_token(tmp_path / "token.pem")
    assert [path.name for path in tmp_path.iterdir()] == ["token.pem"]


def test_the_key_is_in_a_temporary_file_once_and_connections_write_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dask's own security writes the key for each connection, into a folder of Python's that it may not remove."""
    make_token(tmp_path / "token.pem")
    used = tmp_path / "used"
    used.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(used))
    security = token_security(tmp_path / "token.pem")
    assert not list(used.iterdir())

    used.rmdir()
    for role in ("client", "scheduler", "worker"):
        assert security.get_connection_args(role)["require_encryption"] and security.get_listen_args(role)
    with pytest.raises(FileNotFoundError, match="used/mavcg-token-"):
        token_security(tmp_path / "token.pem")
