// How a result struct tells its quantities to every view: name, unit and meaning, once.
//
//   struct Totals { double flops = 0; std::optional<double> time; };
//   template <class F> void fields(F&& field, const Totals& t) {
//     field("flops", t.flops, Unit::flop, "matrix_flops + vector_flops");
//     field("time", t.time, Unit::second, "predicted by the chosen model");
//   }
//
// `field` may be called with a number, bool, string, std::optional of those, another struct that has
// `fields`, a vector of any of these, or an ordered map from string. JSON keys are the names; an
// absent optional is left out.
#pragma once

#include <cstdint>

namespace roofcast {

enum class Unit : uint8_t { none, second, byte, flop, per_second, flop_per_byte, share, count };

}  // namespace roofcast
