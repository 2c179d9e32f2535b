// A small interpreter in the manner of TFLite's: tensors, nodes that read and write them, run in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace edge {

struct Shape {
    int height = 1, width = 1, channels = 1;
    std::size_t elements() const { return std::size_t(height) * width * channels; }
    int pixels() const { return height * width; }
};

// Owns its elements; T is float or int8_t.
template <typename T>
struct Tensor {
    Shape shape;
    std::vector<T> data;
    explicit Tensor(Shape s) : shape(s), data(s.elements()) {}
};

using Floats = Tensor<float>;
using Bytes = Tensor<std::int8_t>;

class Node {
  public:
    explicit Node(std::string name) : name_(std::move(name)) {}
    virtual ~Node() = default;
    virtual void run() = 0;
    const std::string& name() const { return name_; }

  private:
    std::string name_;
};

// Nodes in the order of running. Tensors live as long as the graph and keep their addresses.
class Graph {
  public:
    Floats& floats(Shape shape);
    Bytes& bytes(Shape shape);

    template <typename NodeType, typename... Args>
    NodeType& add(Args&&... args) {
        auto node = std::make_unique<NodeType>(std::forward<Args>(args)...);
        NodeType& added = *node;
        nodes_.push_back(std::move(node));
        return added;
    }

    void run();
    std::size_t size() const { return nodes_.size(); }

  private:
    std::vector<std::unique_ptr<Node>> nodes_;
    std::vector<std::unique_ptr<Floats>> floats_;
    std::vector<std::unique_ptr<Bytes>> bytes_;
};

}  // namespace edge
