// edge_app: runs a small MobileNet on drawn pictures, prints what it saw and a checksum of all results.
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>

#include "image.hpp"
#include "net.hpp"
#include "ops/ops.h"

namespace {

struct Options {
    long iterations = 100;
    std::uint64_t seed = 1;
    std::string dump, image;
};

[[noreturn]] void usage(const std::string& problem) {
    std::fprintf(stderr, "edge_app: %s\nusage: edge_app [--iterations N] [--seed N] [--image FILE.ppm] [--dump FILE]\n",
                 problem.c_str());
    std::exit(2);
}

std::uint64_t number(const std::string& option, const char* text) {
    char* end = nullptr;
    errno = 0;
    long long value = std::strtoll(text, &end, 10);
    if (end == text || *end || errno || value < 0)
        usage(option + " " + text + ": not a number from 0 to 2^63 - 1");
    return std::uint64_t(value);
}

Options read_options(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; i += 2) {
        std::string name = argv[i];
        if (i + 1 == argc)
            usage(name + ": needs a value");
        if (name == "--iterations")
            options.iterations = long(number(name, argv[i + 1]));
        else if (name == "--seed")
            options.seed = number(name, argv[i + 1]);
        else if (name == "--dump")
            options.dump = argv[i + 1];
        else if (name == "--image")
            options.image = argv[i + 1];
        else
            usage(name + ": not an option");
    }
    return options;
}

// FNV-1a over the bytes of the results (Fowler, Noll, Vo).
std::uint64_t checksum(std::uint64_t hash, const std::vector<float>& values) {
    unsigned char bytes[sizeof(float)];
    for (float value : values) {
        std::memcpy(bytes, &value, sizeof value);
        for (unsigned char byte : bytes)
            hash = (hash ^ byte) * 0x100000001b3u;
    }
    return hash;
}

int run(const Options& options) {
    edge::Net net = edge::make_net(options.seed);
    std::ofstream dump;
    if (!options.dump.empty()) {
        dump.open(options.dump, std::ios::binary);
        if (!dump)
            throw std::runtime_error(options.dump + ": cannot be written");
    }
    std::uint64_t hash = 0xcbf29ce484222325u;
    long seen[edge::kClasses] = {};
    double seconds = 0;
    for (long i = 0; i < options.iterations; i++) {
        if (options.image.empty())
            edge::draw_image(options.seed + std::uint64_t(i), *net.image);
        else
            edge::load_ppm(options.image, *net.image);
        auto start = std::chrono::steady_clock::now();
        net.graph.run();
        seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        const auto& results = net.probabilities->data;
        seen[argmax_f32(edge::kClasses, results.data())]++;
        hash = checksum(hash, results);
        dump.write(reinterpret_cast<const char*>(results.data()), std::streamsize(results.size() * sizeof(float)));
    }
    std::printf("classes ");
    for (long count : seen)
        std::printf(" %ld", count);
    std::printf("\nchecksum %016llx\n", static_cast<unsigned long long>(hash));
    if (options.iterations > 0)
        std::fprintf(stderr, "%ld pictures, %.3f ms each\n", options.iterations, 1e3 * seconds / double(options.iterations));
    if (!options.dump.empty() && !dump.flush())
        throw std::runtime_error(options.dump + ": could not be written to its end");
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(read_options(argc, argv));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "edge_app: %s\n", error.what());
        return 1;
    }
}
