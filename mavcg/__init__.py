"""mavcg: one library, the right machine code on every core of a heterogeneous processor."""

TYPE_CHECKING = False  # type checkers take it as true; to import typing takes as long as `mavcg launch` may
if TYPE_CHECKING:
    from typing import Any

    from mavcg.files.sandbox import sandbox as sandbox
    from mavcg.runtime.application import LoadedApplication as LoadedApplication
    from mavcg.runtime.application import load_application as load_application
    from mavcg.runtime.loading import Model as Model
    from mavcg.runtime.loading import load as load
    from mavcg.runtime.sized_model import SizedModel as SizedModel
    from mavcg.runtime.sized_model import load_sizes as load_sizes

__version__ = "0.1.0"


def __getattr__(name: str) -> "Any":
    """Import what loads libraries on its first use: `import mavcg` alone imports nothing heavy."""
    if name in ("load", "Model"):
        from mavcg.runtime import loading

        return getattr(loading, name)
    if name in ("load_application", "LoadedApplication"):
        from mavcg.runtime import application

        return getattr(application, name)
    if name in ("load_sizes", "SizedModel"):
        from mavcg.runtime import sized_model

        return getattr(sized_model, name)
    if name == "sandbox":
        from mavcg.files.sandbox import sandbox

        return sandbox
    raise AttributeError(f"module 'mavcg' has no attribute '{name}'")
