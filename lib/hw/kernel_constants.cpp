#include "hw/kernel_constants.h"

namespace roofcast {
namespace {

using K = KernelConstants;
using Use = ConstantUse;

constexpr KernelConstant table[] = {
    {"launch_overhead", "s", "least time from one kernel's start to the next one's", &K::launch_overhead, 5e-8, 5e-5},
    {"eager_overhead", "s", "least time of one call of an eager framework between two events", &K::eager_overhead, 1e-6, 2e-4},
    {"host_overhead", "s", "what a host's clock around one call and its synchronisation adds", &K::host_overhead, 1e-6, 2e-4},

    {"contraction_efficiency", "share", "of the matrix peak that products reach", &K::contraction_efficiency, 0.05, 1, Use::cpu},
    {"convolution_efficiency", "share", "of the matrix peak that dense convolutions reach", &K::convolution_efficiency, 0.05, 1, Use::cpu},
    {"depthwise_efficiency", "share", "of the matrix peak that depthwise convolutions with many taps reach", &K::depthwise_efficiency, 0.01, 1, Use::cpu},
    {"depthwise_fill", "taps", "a depthwise convolution of so many taps reaches half of that", &K::depthwise_fill, 0.1, 100, Use::cpu},
    {"pooling_efficiency", "share", "of the vector peak that pooling reaches", &K::pooling_efficiency, 1e-4, 1, Use::cpu},
    {"pointwise_efficiency", "share", "of the vector peak that pointwise ops reach", &K::pointwise_efficiency, 1e-4, 1, Use::cpu},
    {"reduction_efficiency", "share", "of the vector peak that reductions reach", &K::reduction_efficiency, 1e-4, 1, Use::cpu},
    {"softmax_efficiency", "share", "of the vector peak that softmax reaches", &K::softmax_efficiency, 1e-4, 1, Use::cpu},
    {"normalization_efficiency", "share", "of the vector peak that normalizations reach", &K::normalization_efficiency, 1e-4, 1, Use::cpu},
    {"movement_bandwidth", "B/s", "bytes that pass a core when elements change places", &K::movement_bandwidth, 1e8, 1e13, Use::cpu},
    {"lookup_bandwidth", "B/s", "bytes that pass a core when rows are gathered", &K::lookup_bandwidth, 1e8, 1e13, Use::cpu},
    {"vector_lanes", "channels", "channels that convolutions of a CPU take at once", &K::vector_lanes, 1, 32, Use::cpu},
    {"memory_overlap", "share", "of the lesser of math and memory that hides behind the greater", &K::memory_overlap, 0.02, 1, Use::cpu},
};

}  // namespace

std::span<const KernelConstant> kernel_constant_table() { return table; }

KernelConstants kernel_constants(const Hardware& hardware) {
  KernelConstants constants;
  for (const KernelConstant& c : table)
    if (const auto at = hardware.kernel.find(std::string(c.name)); at != hardware.kernel.end()) constants.*c.member = at->second.value;
  return constants;
}

}  // namespace roofcast
