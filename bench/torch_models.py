"""Trained networks whose packages ship weights only: built in PyTorch, loaded, exported to ONNX.

Runs in an environment of its own, which bench/models.py makes:

    python torch_models.py NETWORK WEIGHTS.pth OUT.onnx

Sources: Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", table 2; the names of the
parameters are those in the state dicts.
"""

import sys
from typing import Any

import torch
from torch import nn

OPSET = 17


def conv_bn(in_ch: int, out_ch: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Convolution, batch norm, ReLU6."""
    conv = nn.Conv2d(in_ch, out_ch, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(out_ch), nn.ReLU6())


class InvertedResidual(nn.Module):
    """Expand by 1x1, filter each channel, project by 1x1; the input is added where shapes allow."""

    def __init__(self, in_ch: int, out_ch: int, stride: int, expand: int) -> None:
        super().__init__()
        wide = in_ch * expand
        first = [conv_bn(in_ch, wide, 1)] if expand != 1 else []
        self.conv = nn.Sequential(
            *first, conv_bn(wide, wide, 3, stride, wide), nn.Conv2d(wide, out_ch, 1, bias=False), nn.BatchNorm2d(out_ch)
        )
        self.residual = stride == 1 and in_ch == out_ch

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[N, in_ch, H, W] -> [N, out_ch, H / stride, W / stride]."""
        return x + self.conv(x) if self.residual else self.conv(x)


class MobileNetV2(nn.Module):
    """MobileNet v2, for images of 224 x 224, 1000 classes."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [conv_bn(3, 32, 3, 2)]
        in_ch = 32
        for expand, out_ch, repeats, stride in (
            (1, 16, 1, 1),
            (6, 24, 2, 2),
            (6, 32, 3, 2),
            (6, 64, 4, 2),
            (6, 96, 3, 1),
            (6, 160, 3, 2),
            (6, 320, 1, 1),
        ):
            for i in range(repeats):
                layers.append(InvertedResidual(in_ch, out_ch, stride if i == 0 else 1, expand))
                in_ch = out_ch
        self.features = nn.Sequential(*layers, conv_bn(in_ch, 1280, 1))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, 1000))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[N, 3, 224, 224] -> [N, 1000]."""
        return self.classifier(self.features(x).mean((2, 3)))


class SameConv(nn.Conv2d):
    """A convolution padded as TensorFlow's SAME: the odd element lies at the end."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[N, C, H, W] -> [N, out_ch, ceil(H / stride), ceil(W / stride)]."""
        kernel, stride = self.kernel_size[0], self.stride[0]
        before_after = []
        for length in (x.shape[3], x.shape[2]):
            total = max((-(-length // stride) - 1) * stride + kernel - length, 0)
            before_after += [total // 2, total - total // 2]
        return super().forward(nn.functional.pad(x, before_after) if any(before_after) else x)


class LiteBlock(nn.Module):
    """EfficientNet-Lite's block: an inverted residual without squeeze-and-excite."""

    def __init__(self, in_ch: int, out_ch: int, kernel: int, stride: int, expand: int) -> None:
        super().__init__()
        wide = in_ch * expand
        self.expand = expand != 1
        if self.expand:
            self._expand_conv = nn.Conv2d(in_ch, wide, 1, bias=False)
            self._bn0 = nn.BatchNorm2d(wide, eps=1e-3)
        self._depthwise_conv = SameConv(wide, wide, kernel, stride, groups=wide, bias=False)
        self._bn1 = nn.BatchNorm2d(wide, eps=1e-3)
        self._project_conv = nn.Conv2d(wide, out_ch, 1, bias=False)
        self._bn2 = nn.BatchNorm2d(out_ch, eps=1e-3)
        self.residual = stride == 1 and in_ch == out_ch

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[N, in_ch, H, W] -> [N, out_ch, ceil(H / stride), ceil(W / stride)]."""
        relu6 = nn.functional.relu6
        y = relu6(self._bn0(self._expand_conv(x))) if self.expand else x
        y = self._bn2(self._project_conv(relu6(self._bn1(self._depthwise_conv(y)))))
        return x + y if self.residual else y


class EfficientNetLite0(nn.Module):
    """EfficientNet-Lite0, for images of 224 x 224, 1000 classes."""

    def __init__(self) -> None:
        super().__init__()
        self._conv_stem = SameConv(3, 32, 3, 2, bias=False)
        self._bn0 = nn.BatchNorm2d(32, eps=1e-3)
        blocks = []
        in_ch = 32
        for expand, out_ch, repeats, stride, kernel in (
            (1, 16, 1, 1, 3),
            (6, 24, 2, 2, 3),
            (6, 40, 2, 2, 5),
            (6, 80, 3, 2, 3),
            (6, 112, 3, 1, 5),
            (6, 192, 4, 2, 5),
            (6, 320, 1, 1, 3),
        ):
            for i in range(repeats):
                blocks.append(LiteBlock(in_ch, out_ch, kernel, stride if i == 0 else 1, expand))
                in_ch = out_ch
        self._blocks = nn.ModuleList(blocks)
        self._conv_head = nn.Conv2d(in_ch, 1280, 1, bias=False)
        self._bn1 = nn.BatchNorm2d(1280, eps=1e-3)
        self._fc = nn.Linear(1280, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[N, 3, 224, 224] -> [N, 1000]."""
        relu6 = nn.functional.relu6
        x = relu6(self._bn0(self._conv_stem(x)))
        for block in self._blocks:
            x = block(x)
        return self._fc(nn.functional.adaptive_avg_pool2d(relu6(self._bn1(self._conv_head(x))), 1).flatten(1))


NETWORKS: dict[str, Any] = {"mobilenet_v2": MobileNetV2, "efficientnet_lite0": EfficientNetLite0}


def main() -> None:
    """The command line."""
    name, weights, out = sys.argv[1:]
    network = NETWORKS[name]()
    network.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    network.eval()
    x = torch.zeros(1, 3, 224, 224)
    torch.onnx.export(
        network,
        (x,),
        out,
        opset_version=OPSET,
        input_names=["input"],
        output_names=["logits"],
        dynamo=False,
        dynamic_axes={"input": {0: "batch"}, "logits": {0: "batch"}},
    )


if __name__ == "__main__":
    main()
