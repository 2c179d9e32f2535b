"""Tables of publications by which networks are built, here, for accelerators, by the benches and by the tests."""

# MobileNet v2 (Sandler et al., CVPR 2018, table 2): expansion, channels, blocks, stride of the first.
INVERTED_RESIDUALS = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
# GoogLeNet (Szegedy et al., CVPR 2015, table 1): output channels of each module: 1x1; reduction before 3x3, 3x3;
# reduction before 5x5, 5x5; projection behind the pool.
INCEPTION = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}
