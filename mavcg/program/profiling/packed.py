"""Unpacks profiles that gzip, xz or zstd packed, to a bounded size."""

import contextlib
import lzma
import zlib
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from mavcg.errors import ProfileError
from mavcg.files.scratch import scratch_folder

_CHUNK = 1 << 20
# A text profile shrinks 20 to 60 times. A file that grows more is no profile, unless it is small even so.
_MAX_RATIO = 200
_ALWAYS_ALLOWED = 256 << 20
_XZ_MEMORY = 256 << 20  # xz -9 needs 65 MiB
KIND_NAMES = ("gz", "xz", "zst")


def _gzip() -> Any:
    return zlib.decompressobj(wbits=31)


def _xz() -> Any:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)


def _zstd() -> Any:
    """Return zstd's decompressor. Raises: ProfileError if Python has none."""
    for module in ("compression.zstd", "backports.zstd"):  # in the standard library since Python 3.14
        with contextlib.suppress(ImportError):
            return import_module(module).ZstdDecompressor()
    raise ProfileError("packed by zstd, which needs a module: pip install 'mavcg[zstd]'; or unpack it (zstd -d)")


_KINDS: tuple[tuple[bytes, Callable[[], Any]], ...] = (
    (b"\x1f\x8b\x08", _gzip),
    (b"\xfd7zXZ\0", _xz),
    (b"\x28\xb5\x2f\xfd", _zstd),
)


@contextlib.contextmanager
def unpack_profile(path: Path, head: bytes, max_bytes: int) -> Iterator[Path]:
    """Unpack a profile and yield the path of the unpacked file, or `path` itself if its content is not packed.

    Args:
        head: the first bytes of the file.
        max_bytes: of the unpacked file.
    Raises: ProfileError for a file that is damaged, or larger than a profile of its size would be.
    """
    make = next((make for magic, make in _KINDS if head.startswith(magic)), None)
    if make is None:
        yield path
        return
    bound = min(max_bytes, max(_ALWAYS_ALLOWED, _MAX_RATIO * path.stat().st_size))
    with scratch_folder("mavcg-profile-") as folder:
        out = folder / "profile"
        try:
            with open(path, "rb") as source, open(out, "wb") as target:
                _unpack(source, target, make, bound)
        except ProfileError as error:
            raise ProfileError(f"{path}: {error}") from error
        except (zlib.error, lzma.LZMAError, OSError) as error:
            raise ProfileError(f"{path}: cannot be unpacked: {error}; pack or copy it again") from error
        except Exception as error:
            if type(error).__name__ != "ZstdError":  # of a module that may not be there
                raise
            raise ProfileError(f"{path}: cannot be unpacked: {error}; pack or copy it again") from error
        yield out


def _unpack(source: BinaryIO, target: BinaryIO, make: Callable[[], Any], bound: int) -> None:
    """Write what the packed parts of `source`, one after the other, hold; zeros after the last one are padding."""
    size, unpacker, is_open, data = 0, make(), False, b""
    while True:
        waits = is_open and not getattr(unpacker, "needs_input", True)  # it has output left and takes no input
        if not waits and not data:
            data = source.read(_CHUNK)
            if not data:
                break
        if not is_open:
            data = data.lstrip(b"\0")
            is_open = bool(data)
            continue
        piece = unpacker.decompress(b"" if waits else data, _CHUNK)
        size += len(piece)
        if size > bound:
            raise ProfileError(
                f"unpacks to more than {bound >> 20} MiB, which no profile of its size does; unpack it yourself "
                "if you trust it"
            )
        target.write(piece)
        if not waits:
            data = getattr(unpacker, "unconsumed_tail", b"")  # of zlib; the others keep what they have not read
        if unpacker.eof:
            data = unpacker.unused_data + (data if waits else b"")
            unpacker, is_open = make(), False
    if is_open:
        raise ProfileError("ends within its packed data; copy it again")
