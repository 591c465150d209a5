#include "ops/rules.h"

#include <algorithm>

namespace roofcast {

AccessResult broadcast_all(const OpView& view) {
  if (view.opset() < 7 && view.input_count() == 2 && view.ranked(0) && view.ranked(1) && view.integer("broadcast", 0)) {
    const size_t rank = view.rank(0), other = view.rank(1);
    const int64_t axis = view.integer("axis", static_cast<int64_t>(rank) - static_cast<int64_t>(other));
    const size_t at = static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis);
    if (other > rank || at > rank - other)
      return {{}, "the second operand's " + std::to_string(other) + " dims do not fit at axis " + std::to_string(axis), "rank-mismatch"};
    AccessBuilder builder;
    for (size_t d = 0; d < rank; ++d) builder.factor("b" + std::to_string(d), view.dim(0, d));
    auto whole = [&](OperandMap& map) {
      for (size_t d = 0; d < rank; ++d) map.dims.push_back({DimMap::Kind::product, {static_cast<uint8_t>(d)}});
    };
    whole(builder.input());
    OperandMap& second = builder.input();
    for (size_t d = 0; d < other; ++d) {
      const bool stretched = view.dim(1, d) == Expr(1) && view.dim(0, at + d) != Expr(1);
      second.dims.push_back({DimMap::Kind::product, stretched ? std::vector<uint8_t>{} : std::vector<uint8_t>{static_cast<uint8_t>(at + d)}});
    }
    whole(builder.output());
    return {builder.take(), {}, {}};
  }
  std::string pattern;
  for (size_t i = 0; i < view.input_count(); ++i) pattern += i ? ", b.." : "b..";
  return bind_notation(view, pattern + " -> b..");
}

void same_as_first(InferContext& c) {
  if (c.need_inputs(1)) c.output(0, c.in(0));
}

std::optional<std::vector<Scalar>> pass_value(const OpView& view) {
  const Elements e = view.values(0);
  return e ? std::optional(e->items) : std::nullopt;
}

std::optional<std::vector<size_t>> normalize_axes(InferContext& c, const std::vector<int64_t>& axes, size_t rank) {
  std::vector<size_t> out;
  for (int64_t a : axes) {
    const auto at = c.axis(a, rank);
    if (!at) return std::nullopt;
    if (std::find(out.begin(), out.end(), *at) != out.end()) {
      c.fail("onnx-attribute", "axis " + std::to_string(a) + " is named twice");
      return std::nullopt;
    }
    out.push_back(*at);
  }
  return out;
}

void read_bytes(const OpView& view, Work& work, size_t i, Expr bytes) {
  if (view.has(i) && work.reads.size() > i) work.reads[i] = bytes;
}

}  // namespace roofcast
