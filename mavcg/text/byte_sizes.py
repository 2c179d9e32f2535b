"""Numbers of bytes as users write them: 4000000, 4MB, 3.8 MiB."""

import math
import re
from collections.abc import Mapping
from types import MappingProxyType

_BYTES_OF_UNIT: Mapping[str, int] = MappingProxyType(
    {"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
)
_SIZE = re.compile(rf"(\d+(?:\.\d+)?)\s*({'|'.join(_BYTES_OF_UNIT)})?", re.ASCII)


def parse_bytes(text: str, unit_needed: bool = False) -> int | None:
    """Return the bytes of "4000000", "4MB" or "3.8 MiB"; None for text that is no size.

    unit_needed: a number alone is no size.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None or (unit_needed and not match[2]):
        return None
    size = float(match[1]) * _BYTES_OF_UNIT[match[2] or "B"]
    return None if math.isinf(size) else int(size)
