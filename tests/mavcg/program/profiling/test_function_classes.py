"""Classes of functions, by names from public sources and of mavcg's own kernels."""

from collections.abc import Callable

import pytest

from mavcg.program.profiling.function_classes import (
    CLASSES,
    COPY,
    DEPTHWISE,
    ELEMENTWISE,
    GEMM,
    NORM,
    OTHER,
    PACK,
    POOL,
    class_of,
    class_shares,
    mean_share,
)
from mavcg.program.profiling.profile import Profile

NAMES = {
    GEMM: (
        "Eigen::internal::gebp_kernel<float, float, long>::operator()",
        "gemmlowp::KernelBase::gemm_kernel",
        "ruy::KernelFloatNeonA55ish(ruy::KernelParamsFloat<8, 8> const&)",
        "xnn_f32_igemm_minmax_ukernel_6x8__neonfma",
        "sgemm_kernel_haswell",
        "MlasConvDirect",
        "conv2d_f32_nhwc_1x14x14x64_1x1x64s1_ca79a197.cortex-a55",
        "matmul_f32_1x384x384_k64_01234567",
        "winograd_2d_f4_k3_f32_nhwc_1x14x14x64_3x3x64s1_00112233",
        "csr_product_f32_hwc_1x7x7_k64_00112233",
        "bcsr4_product_f32_hwc_1x7x7_k64_00112233",
    ),
    DEPTHWISE: (
        "depthwise_f32_nhwc_1x14x14x64_3x3s1_9a02c582",
        "xnn_f32_dwconv_minmax_ukernel_9p4c__neon",
        "tflite::optimized_ops::DepthwiseConvImpl",
    ),
    PACK: (
        "Eigen::internal::gemm_pack_rhs<float, long>::operator()",
        "im2col_f32_chw_1x2x3_3x3s1_00112233",
        "sgemm_itcopy_HASWELL",
        "transpose_x32_1x2x3_00112233",
        "winograd_input_f4_k3_f32_nhwc_00112233",
    ),
    POOL: ("xnn_f32_maxpool_minmax_ukernel_9p8x__sse2_c4", "avg_pool2d_f32_nhwc_1x1x1x1024_00112233"),
    NORM: ("softmax_f32_1x1000_00112233", "layer_norm_f32_1x384x768_00112233"),
    COPY: ("__memmove_avx_unaligned_erms", "memset"),
    ELEMENTWISE: ("xnn_f32_vadd_minmax_ukernel__neon_u8", "relu_f32_1x2x3_00112233"),
    OTHER: ("main", "pthread_create", "std::vector<int>::push_back", "convert_color"),
}


@pytest.mark.parametrize(("expected", "name"), [(key, name) for key, names in NAMES.items() for name in names])
def test_names_from_public_sources(expected: str, name: str) -> None:
    assert class_of(name, name) == expected


def test_shares_sum_to_one_and_name_the_hottest(make_profile: Callable[..., Profile]) -> None:
    profile = make_profile(
        ("sgemm_kernel", "libn.so", None, 6),
        ("sgemm_kernel", "libn.so", "a55", 1),
        ("softmax", "libn.so", None, 3),
        ("main", "app", None, 90),
    )
    inside, whole = class_shares(profile, "n", "libn.so"), class_shares(profile, "n")
    assert (inside.hottest, inside.hottest_share, inside.total) == ("sgemm_kernel", 0.7, 10)
    assert {name: share for name, share in inside.shares.items() if share} == {GEMM: 0.7, NORM: 0.3}
    assert tuple(whole.shares) == CLASSES and sum(whole.shares.values()) == pytest.approx(1)
    assert mean_share((inside, whole), GEMM) == pytest.approx((0.7 + 0.07) / 2)
