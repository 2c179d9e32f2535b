"""Codes of element types by dtype, read from enum mavcg_type in csrc/engine_api.h, the only table of them."""

from mavcg.runtime.declared import ffi

TYPE_CODES: dict[str, int] = {
    name.removeprefix("MAVCG_").lower(): code for code, name in sorted(ffi.typeof("enum mavcg_type").elements.items())
}
