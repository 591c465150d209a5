// Rates of a Hardware by the contract's rules.
#pragma once

#include "ir/type.h"
#include "roofcast/hardware.h"

#include <optional>
#include <string_view>

namespace roofcast {

// FLOP/s for contractions in `type`: the matrix peak; for fp32 and fp64, and on a device without
// matrix units, else the vector peak of that type. Absent: the hardware file lacks it.
std::optional<double> matrix_rate(const Hardware& hardware, MathType type);

// FLOP/s for everything else: the vector peak of `type`; types that vector units do not add natively
// (bf16 on most devices, fp8, integers) are converted and run at the fp32 rate.
std::optional<double> vector_rate(const Hardware& hardware, MathType type);

std::optional<double> memory_bandwidth(const Hardware& hardware);       // bytes/s of the main memory
std::optional<double> memory_capacity(const Hardware& hardware);        // bytes
std::optional<double> cache_capacity(const Hardware& hardware);         // bytes of the last-level cache
std::optional<double> constant(const Hardware& hardware, const std::string& name);  // [kernel] or [chip]

// Levels of the network, innermost first.
std::vector<std::pair<std::string, const Link*>> link_levels(const Hardware& hardware);

// FLOP per byte at which `type`'s matrix roof meets the memory roof.
std::optional<double> knee(const Hardware& hardware, MathType type);

// The hardware as a file that load_hardware reads; `extends` names the spec that it is laid over.
std::string to_toml(const Hardware& hardware, std::string_view extends = {});

}  // namespace roofcast
