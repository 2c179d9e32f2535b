"""The error of a core's pipeline model, which is the margin of choices that its times decide."""

from dataclasses import dataclass

from mavcg.hardware.core import Core

# Of a core without published figures. Of the 24 cores with figures of kernels, 21 have an error of at most this.
ASSUMED_ERROR = 0.10
_KERNELS = ("calls and loops", "changes in time")  # groups of published figures of loops, the preferred one first


@dataclass(frozen=True)
class ModelError:
    """The error of a core's model, as a fraction. is_assumed: True if no published figures of loops give it."""

    fraction: float
    is_assumed: bool = False

    @property
    def least_ratio(self) -> float:
        """Return the ratio of two times down to which the error may be all of their difference; at least 0.1."""
        return max(0.1, 1 - self.fraction)

    def __str__(self) -> str:
        percent = f"{self.fraction:.1%}"
        return f"the error of {percent} assumed for its model" if self.is_assumed else f"the model's error of {percent}"


def model_error(core: Core | None) -> ModelError:
    """Return the error of a core's model against published cycles of kernels, else the assumed one.

    That on projects which no fact was fitted to comes first (bench/silicon/blind.toml): it says most of code that the
    model has not seen. core: None for one that is not known.
    """
    if core is None or core.silicon is None:
        return ModelError(ASSUMED_ERROR, True)
    kinds = (core.silicon.kinds[name].mean_abs_error for name in _KERNELS if name in core.silicon.kinds)
    known = core.silicon.blind_error if core.silicon.blind_error is not None else next(kinds, None)
    return ModelError(ASSUMED_ERROR, True) if known is None else ModelError(known)
