"""`mavcg launch`: a compiler launcher that turns the objects of hot functions into multi-versioned ones."""


def launch(arguments: list[str]) -> int:
    """Run a compiler command; then version the hot functions of the object it made."""
    raise SystemExit(2)


def launch_help() -> None:
    """Run a compiler command and version the hot functions of the object that it makes."""
