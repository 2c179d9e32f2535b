"""The codes of element types by dtype, taken from enum mavcg_type of csrc/engine_api.h: no other table has them."""

from mavcg.runtime.declared import ffi

TYPE_CODES: dict[str, int] = {
    name.removeprefix("MAVCG_").lower(): code for code, name in sorted(ffi.typeof("enum mavcg_type").elements.items())
}
