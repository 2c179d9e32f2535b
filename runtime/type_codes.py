"""The codes of element types, as csrc/engine_api.h has them."""

from mavcg.runtime.declared import ffi

TYPE_CODES: dict[str, int] = {
    name.removeprefix("MAVCG_").lower(): code for code, name in sorted(ffi.typeof("enum mavcg_type").elements.items())
}
