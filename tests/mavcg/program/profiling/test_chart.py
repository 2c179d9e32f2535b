"""The share chart: what it says, and that the same profile draws the same bytes."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mavcg.errors import MavcgError
from mavcg.program.profiling.profile import Profile

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib (mavcg[plots]) is not installed")

from mavcg.program.profiling.chart import plot_shares, share_figure  # noqa: E402

Make = Callable[..., Profile]
LONG = (
    "_ZN5Eigen8internal11gebp_kernelIfflNS0_16blas_data_mapperIflLi0ELi0ELi1EEELi8ELi4ELb0ELb0EEclERKS3_PKfS7_llllfllll"
)


def widths(ax: Any) -> list[float]:
    """Lengths of a panel's bars, in percent."""
    return [round(bar.get_width(), 6) for bar in ax.patches]


@pytest.fixture
def profile(make_profile: Make) -> Profile:
    """Two core types, a long C++ name, a name with dollar signs, something that cannot be cloned."""
    return make_profile(
        (LONG, "libtflite.so", "cortex-a55", 600),
        (LONG, "libtflite.so", "exynos-m4", 100),
        ("$odd$name_with^marks", "app", "cortex-a55", 100),
        ("memcpy", "libc.so.6", "exynos-m4", 100),
        *((f"f{n}", "app", "cortex-a55", 5) for n in range(20)),
    )


def test_a_panel_per_core_type_with_its_shares(profile: Profile) -> None:
    figure = share_figure(profile, top=3)
    left, right = figure.axes
    assert (left.get_title(loc="left"), right.get_title(loc="left")) == (
        "cortex-a55\n80% of samples",
        "exynos-m4\n20% of samples",
    )
    assert [t.get_text() for t in left.get_yticklabels()] == [
        "Eigen::internal::gebp_kernel<…>::operator()",
        "$odd$name_with^marks",
        "memcpy",
        "20 more functions",
    ]
    assert widths(left) == [75.0, 12.5, 0.0, 12.5]
    assert widths(right) == [50.0, 0.0, 50.0, 0.0]
    assert [t.get_text() for t in right.texts] == ["50.0 %", "none", "50.0 %", "none"]


def test_one_panel_where_no_core_is_known(make_profile: Make) -> None:
    figure = share_figure(make_profile(("f", "app", None, 1), ("g", "app", None, 3)))
    (ax,) = figure.axes
    assert widths(ax) == [75.0, 25.0]


def test_labels_lie_within_the_picture(profile: Profile) -> None:
    figure = share_figure(profile)
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas: Any = FigureCanvasAgg(figure)  # matplotlib does not annotate get_renderer
    renderer = canvas.get_renderer()
    box = figure.bbox
    texts = [
        *figure.texts,
        *(t for ax in figure.axes for t in [*ax.texts, ax.title]),
        *figure.axes[0].get_yticklabels(),
    ]
    for text in texts:
        extent = text.get_window_extent(renderer)
        assert extent.x0 >= box.x0 and extent.x1 <= box.x1 and extent.y0 >= box.y0 and extent.y1 <= box.y1, text
    for ax in figure.axes[:-1]:
        after = figure.axes[figure.axes.index(ax) + 1].get_window_extent(renderer)
        assert all(t.get_window_extent(renderer).x1 < after.x1 for t in ax.texts)


@pytest.mark.parametrize("name", ["share.png", "share.SVG"])
def test_same_profile_same_bytes(profile: Profile, tmp_path: Path, name: str) -> None:
    plot_shares(profile, tmp_path / name)
    first = (tmp_path / name).read_bytes()
    plot_shares(profile, tmp_path / name)
    assert (tmp_path / name).read_bytes() == first
    assert first.startswith(b"\x89PNG") if name.endswith("png") else b"$odd$name_with^marks" in first
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_other_endings_and_places(profile: Profile, tmp_path: Path) -> None:
    with pytest.raises(MavcgError, match=r"share.gif: pictures are .svg or .png"):
        plot_shares(profile, tmp_path / "share.gif")
    with pytest.raises(MavcgError, match="is not there"):
        plot_shares(profile, tmp_path / "no" / "share.png")


def test_without_matplotlib_the_extra_is_named(
    profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MavcgError, match=r"matplotlib, which is not installed; pip install 'mavcg\[plots\]'"):
        plot_shares(profile, tmp_path / "share.png")
