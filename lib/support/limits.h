// Bounds on what an untrusted file may ask for. Beyond them a Diagnostic, never exhaustion.
#pragma once

#include <cstddef>
#include <cstdint>

namespace roofcast::limits {

inline constexpr int nesting_depth = 64;              // subgraphs in subgraphs, types in types
inline constexpr int function_depth = 64;             // functions calling functions
inline constexpr size_t nodes = 500'000;              // after inlining
inline constexpr size_t rank = 64;                    // dims of one tensor
inline constexpr size_t operands = 60'000;            // inputs or outputs of one node
inline constexpr int64_t dim = (int64_t{1} << 62) - 1;  // one size; 63 bits hold it
inline constexpr size_t known_elements = 1024;        // values kept of a small tensor
inline constexpr int expr_depth = 128;                // nesting of a symbolic size
inline constexpr size_t expr_terms = 64;              // terms of one sum

}  // namespace roofcast::limits
