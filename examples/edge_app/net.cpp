#include "net.hpp"

#include <algorithm>
#include <cmath>

#include "image.hpp"
#include "ops/ops.h"
#include "random.hpp"

namespace edge {
namespace {

constexpr float kRelu6 = 6.0f;
constexpr float kFar = 3.0e38f;
// Float activations lie in [0, 6]: one step of a byte is 6/255, zero is -128.
constexpr float kScale = kRelu6 / 255.0f;
constexpr int kZero = -128;
constexpr float kGain = 64.0f;

std::vector<float> random_weights(Random& random, std::size_t count, int fan_in) {
    float scale = std::sqrt(6.0f / float(fan_in));  // sqrt is exact to the last bit everywhere (IEEE 754)
    std::vector<float> weights(count);
    for (float& weight : weights)
        weight = random.unit() * scale;
    return weights;
}

int strided(int size, int stride) { return (size - 1) / stride + 1; }

class StemConv : public Node {
  public:
    StemConv(Random& random, Floats& in, Floats& out)
        : Node("stem"), in_(in), out_(out), depth_(9 * in.shape.channels),
          patches_(std::size_t(out.shape.pixels()) * depth_), weights_(random_weights(random, std::size_t(depth_) * out.shape.channels, depth_)),
          bias_(random_weights(random, std::size_t(out.shape.channels), 600)) {}
    void run() override {
        im2col_3x3(in_.shape.height, in_.shape.width, in_.shape.channels, 2, in_.data.data(), patches_.data());
        gemm_f32(out_.shape.pixels(), out_.shape.channels, depth_, patches_.data(), weights_.data(), bias_.data(), 0.0f,
                 kRelu6, out_.data.data());
    }

  private:
    Floats &in_, &out_;
    int depth_;
    std::vector<float> patches_, weights_, bias_;
};

class Depthwise : public Node {
  public:
    Depthwise(Random& random, Floats& in, Floats& out, int stride)
        : Node("depthwise"), in_(in), out_(out), stride_(stride),
          filter_(random_weights(random, std::size_t(9) * in.shape.channels, 9)),
          bias_(random_weights(random, std::size_t(in.shape.channels), 600)) {}
    void run() override {
        depthwise_f32(in_.shape.height, in_.shape.width, in_.shape.channels, stride_, in_.data.data(), filter_.data(),
                      bias_.data(), 0.0f, kRelu6, out_.data.data());
    }

  private:
    Floats &in_, &out_;
    int stride_;
    std::vector<float> filter_, bias_;
};

class Pointwise : public Node {
  public:
    Pointwise(Random& random, Floats& in, Floats& out, float low, float high)
        : Node("pointwise"), in_(in), out_(out), low_(low), high_(high),
          weights_(random_weights(random, std::size_t(in.shape.channels) * out.shape.channels, in.shape.channels)),
          bias_(random_weights(random, std::size_t(out.shape.channels), 600)) {}
    void run() override {
        gemm_f32(in_.shape.pixels(), out_.shape.channels, in_.shape.channels, in_.data.data(), weights_.data(),
                 bias_.data(), low_, high_, out_.data.data());
    }
    // From here on, the input that is there now gives zeros, and others differ more.
    void center(float gain) {
        for (float& weight : weights_)
            weight *= gain;
        std::fill(bias_.begin(), bias_.end(), 0.0f);
        run();
        for (std::size_t j = 0; j < bias_.size(); j++)
            bias_[j] = -out_.data[j];
    }

  private:
    Floats &in_, &out_;
    float low_, high_;
    std::vector<float> weights_, bias_;
};

class QuantizedPointwise : public Node {
  public:
    QuantizedPointwise(Random& random, Bytes& in, Bytes& out)
        : Node("pointwise int8"), in_(in), out_(out), packed_(packed_size_s8(in.shape.channels, out.shape.channels)),
          bias_(std::size_t(out.shape.channels)) {
        int depth = in.shape.channels, cols = out.shape.channels;
        std::vector<std::int8_t> weights(std::size_t(depth) * cols);
        for (auto& weight : weights)
            weight = std::int8_t(random.in_range(-127, 127));
        pack_s8(depth, cols, weights.data(), packed_.data());
        for (auto& value : bias_)
            value = random.in_range(-2000, 2000);
        // Weights stand for byte/127 * sqrt(6/depth); input and output have the same scale.
        double factor = std::sqrt(6.0 / depth) / 127.0;
        int exponent = 0;
        double mantissa = std::frexp(factor, &exponent);
        quantize_ = {kZero, kZero, std::int32_t(mantissa * 2147483648.0), exponent, -128, 127};
    }
    void run() override {
        gemm_s8(in_.shape.pixels(), out_.shape.channels, in_.shape.channels, in_.data.data(), packed_.data(),
                bias_.data(), &quantize_, out_.data.data());
    }

  private:
    Bytes &in_, &out_;
    std::vector<std::int8_t> packed_;
    std::vector<std::int32_t> bias_;
    Requantize quantize_{};
};

class ToBytes : public Node {
  public:
    ToBytes(Floats& in, Bytes& out) : Node("quantize"), in_(in), out_(out) {}
    void run() override { quantize_f32(in_.data.size(), kScale, kZero, in_.data.data(), out_.data.data()); }

  private:
    Floats& in_;
    Bytes& out_;
};

class ToFloats : public Node {
  public:
    ToFloats(Bytes& in, Floats& out) : Node("dequantize"), in_(in), out_(out) {}
    void run() override { dequantize_s8(in_.data.size(), kScale, kZero, in_.data.data(), out_.data.data()); }

  private:
    Bytes& in_;
    Floats& out_;
};

class GlobalMean : public Node {
  public:
    GlobalMean(Floats& in, Floats& out) : Node("mean"), in_(in), out_(out) {}
    void run() override {
        global_mean_f32(in_.shape.pixels(), in_.shape.channels, in_.data.data(), out_.data.data());
    }

  private:
    Floats &in_, &out_;
};

class Softmax : public Node {
  public:
    Softmax(Floats& in, Floats& out) : Node("softmax"), in_(in), out_(out) {}
    void run() override { softmax_f32(in_.shape.channels, in_.data.data(), out_.data.data()); }

  private:
    Floats &in_, &out_;
};

// Depthwise, then pointwise, as in MobileNet.
Floats& separable(Graph& graph, Random& random, Floats& in, int out_channels, int stride) {
    Shape shape{strided(in.shape.height, stride), strided(in.shape.width, stride), in.shape.channels};
    Floats& filtered = graph.floats(shape);
    graph.add<Depthwise>(random, in, filtered, stride);
    shape.channels = out_channels;
    Floats& mixed = graph.floats(shape);
    graph.add<Pointwise>(random, filtered, mixed, 0.0f, kRelu6);
    return mixed;
}

}  // namespace

Net make_net(std::uint64_t seed) {
    Net net;
    Graph& graph = net.graph;
    Random random(seed);
    net.image = &graph.floats({kImageSize, kImageSize, 3});

    Floats* body = &graph.floats({strided(kImageSize, 2), strided(kImageSize, 2), 16});
    graph.add<StemConv>(random, *net.image, *body);
    body = &separable(graph, random, *body, 32, 1);
    body = &separable(graph, random, *body, 64, 2);
    body = &separable(graph, random, *body, 64, 1);
    body = &separable(graph, random, *body, 128, 2);
    for (int layer = 0; layer < 3; layer++)
        body = &separable(graph, random, *body, 128, 1);

    Shape shape = body->shape;
    Bytes* head = &graph.bytes(shape);
    graph.add<ToBytes>(*body, *head);
    for (int channels : {128, 136}) {  // 136: a size that is no power of two
        shape.channels = channels;
        Bytes& next = graph.bytes(shape);
        graph.add<QuantizedPointwise>(random, *head, next);
        head = &next;
    }
    Floats& features = graph.floats(shape);
    graph.add<ToFloats>(*head, features);
    Floats& mean = graph.floats({1, 1, shape.channels});
    graph.add<GlobalMean>(features, mean);
    Floats& logits = graph.floats({1, 1, kClasses});
    auto& classifier = graph.add<Pointwise>(random, mean, logits, -kFar, kFar);
    net.probabilities = &graph.floats({1, 1, kClasses});
    graph.add<Softmax>(logits, *net.probabilities);

    // Random weights would see the same class in every picture: say "no class" to one picture, tell others from it.
    draw_image(seed, *net.image);
    graph.run();
    classifier.center(kGain);
    return net;
}

}  // namespace edge
