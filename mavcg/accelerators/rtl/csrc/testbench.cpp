/* Runs a program on the core that Verilator translated, beside a model of the DDR memory. */
#include <cstdint>
#include <cstring>
#include <deque>

#include "Vmavcg_core.h"
#include "testbench.h"

namespace {

constexpr uint64_t kCode = 1ULL << 32, kParameters = 2ULL << 32, kFeatures = 4ULL << 32; /* addresses of the segments */
constexpr uint32_t kBeat = 16, kScale = 16; /* most bytes that a port moves at once; fraction bits of a byte */

struct Run {
    uint64_t address, ready; /* ready: the cycle in which its latency has passed */
    uint32_t bytes;
};

/* The requests of one unit, of which the oldest moves. credit: bytes of bandwidth that the oldest run has had, with
 * kScale fraction bits. moved: its bytes that have passed. burst: bytes of a burst, of which a run takes whole ones;
 * 0 for none. */
struct Stream {
    uint32_t burst;
    std::deque<Run> runs;
    uint64_t credit = 0;
    uint32_t moved = 0;

    bool active(uint64_t cycle) const { return !runs.empty() && runs.front().ready <= cycle; }

    /* Bandwidth after which the first `count` bytes of the oldest run have passed: the bytes of a burst that is not
     * full come at its end, so that a run ends when its bursts do. */
    uint64_t due(uint32_t count) const {
        if (!burst) return count;
        uint32_t begin = (count - 1) / burst * burst, left = runs.front().bytes - begin;
        return begin + burst - (left < burst ? left : burst) + (count - begin);
    }

    bool may_move(uint32_t count) const { return due(moved + count) << kScale <= credit; }

    /* Bandwidth is not kept for more than two bursts that the unit could have moved. */
    void earn(uint64_t share) {
        uint64_t most = (uint64_t)(moved + 2 * (burst ? burst : kBeat)) << kScale;
        credit += share;
        if (credit > most) credit = most;
    }

    void move(uint32_t count) {
        moved += count;
        if (moved < runs.front().bytes) return;
        uint64_t used = due(moved) << kScale;
        credit = credit > used ? credit - used : 0;
        runs.pop_front();
        moved = 0;
        if (runs.empty()) credit = 0;
    }
};

struct Memory {
    const mavcg_rtl_job *job;
    bool fault = false;

    /* Return `count` bytes at an address; NULL, with a fault, outside of the segments. */
    uint8_t *at(uint64_t address, uint32_t count) {
        const struct {
            uint64_t base, size;
            uint8_t *bytes;
        } segments[] = {{kCode, job->code_bytes, const_cast<uint8_t *>(job->code)},
                        {kParameters, job->parameter_bytes, const_cast<uint8_t *>(job->parameters)},
                        {kFeatures, job->feature_bytes, job->features}};
        for (const auto &one : segments)
            if (address >= one.base && address + count <= one.base + one.size) return one.bytes + (address - one.base);
        fault = true;
        return nullptr;
    }
};

/* A port's data as bytes, whatever type Verilator gives it; this machine is little-endian, as are its words. */
template <class T>
void set_bytes(T &port, const uint8_t *bytes, uint32_t count) {
    std::memset(&port, 0, sizeof port);
    std::memcpy(&port, bytes, count);
}

/* Put the next bytes of a read on its port; return their number, 0 for none. */
template <class Data, class Count>
uint32_t offer(Stream &stream, Memory &memory, uint64_t cycle, uint32_t most, Data &data, Count &count) {
    if (!stream.active(cycle)) return 0;
    uint32_t left = stream.runs.front().bytes - stream.moved, next = left < most ? left : most;
    if (!stream.may_move(next)) return 0;
    const uint8_t *bytes = memory.at(stream.runs.front().address + stream.moved, next);
    if (!bytes) return 0;
    set_bytes(data, bytes, next);
    count = next;
    return next;
}

} // namespace

extern "C" int mavcg_rtl_run(const mavcg_rtl_job *job, mavcg_rtl_result *result) {
    VerilatedContext context;
    Vmavcg_core core(&context);
    Memory memory = {job};
    Stream fetch = {0}, load = {job->burst_bytes}, save = {job->burst_bytes};
    core.code_base = kCode;
    core.parameters_base = kParameters;
    core.features_base = kFeatures;
    core.code_bytes = (uint32_t)job->code_bytes;
    core.fetch_accept = core.load_accept = core.save_accept = 1;
    auto clock = [&core] {
        core.clk = 1;
        core.eval();
        core.clk = 0;
        core.eval();
    };
    core.clk = 0;
    core.rst = 1;
    clock();
    core.rst = 0;
    core.start = 1;
    clock();
    core.start = 0;
    uint64_t cycle = 0;
    for (; cycle < job->most_cycles && !core.finished && !core.unknown && !memory.fault; cycle++) {
        if (core.fetch_request) fetch.runs.push_back({core.fetch_address, cycle + job->latency, core.fetch_bytes});
        if (core.load_request) load.runs.push_back({core.load_address, cycle + job->latency, core.load_bytes});
        if (core.save_request) save.runs.push_back({core.save_address, cycle + job->latency, core.save_bytes});
        Stream *streams[] = {&fetch, &load, &save};
        uint64_t moving = 0;
        for (const Stream *one : streams) moving += one->active(cycle);
        uint64_t even = moving ? job->rate / moving : 0, share = even < job->port_rate ? even : job->port_rate;
        for (Stream *one : streams)
            if (one->active(cycle)) one->earn(share ? share : 1);
        core.load_active = load.active(cycle);
        core.save_active = save.active(cycle);
        uint32_t fetched = offer(fetch, memory, cycle, job->port_bytes, core.fetch_data, core.fetch_count);
        uint32_t loaded = offer(load, memory, cycle, job->port_bytes, core.load_data, core.load_count);
        uint32_t saved = core.save_count;
        core.fetch_valid = fetched != 0;
        core.load_valid = loaded != 0;
        core.save_ready = save.active(cycle) && core.save_valid && save.may_move(saved);
        core.eval();
        if (fetched && core.fetch_ready) fetch.move(fetched);
        if (loaded && core.load_ready) load.move(loaded);
        if (core.save_valid && core.save_ready) {
            uint8_t *bytes = memory.at(save.runs.front().address + save.moved, saved);
            if (bytes) std::memcpy(bytes, &core.save_data, saved);
            save.move(saved);
        }
        clock();
    }
    result->cycles = cycle;
    result->end = core.finished  ? MAVCG_RTL_FINISHED
                  : core.unknown ? MAVCG_RTL_UNKNOWN
                  : memory.fault ? MAVCG_RTL_OUTSIDE
                                 : MAVCG_RTL_CYCLES;
    return 0;
}
