"""Names of the networks in Park's thesis, and in bench.models."""

from collections.abc import Mapping

# Names of bench.models by those of the thesis' table 2.1 and of its section 4.4.
F32 = {
    "densenet": "densenet121-random",
    "inception_resnet_v2": "inception_resnet_v2-random",
    "inception_v3": "inception_v3-random",
    "inception_v4": "inception_v4-random",
    "mnasnet_1.0": "mnasnet_1.0-random",
    "mnasnet_1.3": "mnasnet_1.3-random",
    "mobilenet_v1": "mobilenet_v1-random",
    "mobilenet_v2": "mobilenet_v2",
    "nasnet_large": "nasnet_large-random",
    "nasnet_mobile": "nasnet_mobile-random",
    "resnet_v2": "resnet_v2_101-random",
    "squeezenet": "squeezenet-random",
}
INT8 = {
    f"{name}, 8-bit": f"{model}-int8"
    for name, model in F32.items()
    if name in ("inception_v3", "inception_v4", "mobilenet_v1", "mobilenet_v2")
}
ENCODERS = {"ALBERT": "albert-random", "MobileBERT": "mobilebert-random"}
NETWORKS: Mapping[str, str] = {**F32, **INT8, **ENCODERS}


def group_of(name: str) -> str:
    """Return the group in whose mean a network counts: "f32", "8-bit" or "encoder"."""
    return "encoder" if name in ENCODERS else "8-bit" if name in INT8 else "f32"
