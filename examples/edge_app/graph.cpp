#include "graph.hpp"

namespace edge {

Floats& Graph::floats(Shape shape) {
    floats_.push_back(std::make_unique<Floats>(shape));
    return *floats_.back();
}

Bytes& Graph::bytes(Shape shape) {
    bytes_.push_back(std::make_unique<Bytes>(shape));
    return *bytes_.back();
}

void Graph::run() {
    for (auto& node : nodes_)
        node->run();
}

}  // namespace edge
