// Textual IR: what roofcast-opt reads and writes. print → parse → print gives the same text.
//
//   opset "" 20
//   graph @main(%x: f32[batch, 64]) -> (%y) {
//     weight %w: f32[64, 10] bytes 2560
//     const %shape: i64[2] bytes 16 = [-1, 10]
//     %t = MatMul(%x, %w) : f32[batch, 10] @"/fc/MatMul" in "fc"
//     %y = Reshape(%t, %shape) {allowzero = 0} : f32[batch, 10]
//   }
//
// A `weight` is an initializer, a `const` one whose elements are kept. Left-out operands are `_`. Types
// behind a node's colon are inferred ones, or what the file declares before inference. Bodies follow
// their node, named by attribute. Names with other characters than [A-Za-z0-9_.$/-] are in quotes.
#pragma once

#include "ir/graph.h"

#include <memory>
#include <string>
#include <string_view>

namespace roofcast {

std::string print(const Module& module);

// Code ir-syntax, with the line. `file` is for messages.
Result<std::unique_ptr<Module>> parse(std::string_view text, const std::string& file);

// "[?, 3, batch + 1, 2/3, 0.5]"; the printer's own form of known elements.
std::string to_string(Elements elements);

}  // namespace roofcast
