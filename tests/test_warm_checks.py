"""Set-up has mypy read the packages that this project imports, and none of its own modules."""

from scripts.warm_checks import imported_elsewhere


def test_packages_of_others_are_named_once() -> None:
    sources = (
        "import ast, numpy\nfrom pandas.io import json\nfrom mavcg.graph import Graph\n",
        "def late():\n    import numpy\n    from . import near\n    from onnx import helper as h, numpy_helper\n",
        "import tests.kernels.conftest\nimport networkx.algorithms.isomorphism as iso\n",
    )

    assert imported_elsewhere(sources) == ["networkx.algorithms.isomorphism", "numpy", "onnx", "pandas.io"]


def test_a_module_without_imports_names_none() -> None:
    assert imported_elsewhere(["x = 1\n", ""]) == []
