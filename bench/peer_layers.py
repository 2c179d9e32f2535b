"""What each layer of a network takes, here and in the runtimes that say it."""


def layers_of(name: str, threads: int, as_json: bool) -> None:
    raise NotImplementedError
