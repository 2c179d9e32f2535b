#include "image.hpp"

#include <algorithm>
#include <fstream>
#include <stdexcept>

#include "random.hpp"

namespace edge {

void draw_image(std::uint64_t seed, Floats& image) {
    Random random(seed);
    for (std::size_t i = 0; i + 2 < image.data.size(); i += 3) {
        std::uint64_t bits = random.next();
        for (int ch = 0; ch < 3; ch++)  // noise of 1/512 steps, in [-1/4, 1/4)
            image.data[i + ch] = float(int(bits >> (8 * ch) & 0xff) - 128) / 512.0f;
    }
    const auto [height, width, channels] = image.shape;
    for (int disc = 0; disc < 5; disc++) {
        int x0 = random.in_range(0, width - 1), y0 = random.in_range(0, height - 1), radius = random.in_range(4, 24);
        float colour[3] = {random.unit() * 0.75f, random.unit() * 0.75f, random.unit() * 0.75f};
        for (int y = std::max(0, y0 - radius); y < std::min(height, y0 + radius); y++)
            for (int x = std::max(0, x0 - radius); x < std::min(width, x0 + radius); x++)
                if ((x - x0) * (x - x0) + (y - y0) * (y - y0) < radius * radius)
                    for (int ch = 0; ch < channels; ch++)
                        image.data[(std::size_t(y) * width + x) * channels + ch] = colour[ch % 3];
    }
}

void load_ppm(const std::string& path, Floats& image) {
    std::ifstream file(path, std::ios::binary);
    if (!file)
        throw std::runtime_error(path + ": cannot be read");
    std::string magic;
    int width = 0, height = 0, top = 0;
    file >> magic >> width >> height >> top;
    if (magic != "P6" || width < 1 || height < 1 || width > 16384 || height > 16384 || top != 255)
        throw std::runtime_error(path + ": not a binary PPM with 8-bit samples (P6, 255)");
    file.get();
    std::vector<char> pixels(std::size_t(width) * height * 3);
    if (!file.read(pixels.data(), std::streamsize(pixels.size())))
        throw std::runtime_error(path + ": ends before its last pixel");
    for (int y = 0; y < image.shape.height; y++)
        for (int x = 0; x < image.shape.width; x++)
            for (int ch = 0; ch < 3; ch++) {
                int from_y = y * height / image.shape.height, from_x = x * width / image.shape.width;
                auto sample = static_cast<unsigned char>(pixels[(std::size_t(from_y) * width + from_x) * 3 + ch]);
                image.data[(std::size_t(y) * image.shape.width + x) * 3 + ch] = float(sample) / 127.5f - 1.0f;
            }
}

}  // namespace edge
