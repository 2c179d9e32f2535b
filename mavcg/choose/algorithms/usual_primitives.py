"""The primitives that the engine takes where nothing is selected; they are always measured."""

from mavcg.kernels.primitives.eight_bit import DEFAULTS

# Of convolutions in f32, by whether they are depthwise.
USUAL = {False: "implicit_gemm_hwc_hwc", True: "implicit_depthwise_hwc_hwc"}
USUAL_NAMES = frozenset((*USUAL.values(), *DEFAULTS))  # and of 8 bits
