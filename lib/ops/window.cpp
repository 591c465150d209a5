#include "ops/window.h"

namespace roofcast {

Expr Window::output(size_t d, Expr size, bool past_end) const {
  if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") return ceil_div(size, stride[d]);
  if (auto_pad == "VALID") {
    const Expr room = size - reach(d);
    return (ceil_mode ? ceil_div(room, stride[d]) : floor_div(room, stride[d])) + 1;
  }
  const Expr room = size + pad_begin[d] + pad_end[d] - reach(d);
  if (!ceil_mode) return floor_div(room, stride[d]) + 1;
  const Expr count = ceil_div(room, stride[d]) + 1;
  if (past_end) return count;
  // A last window that would start in the end padding is left out: windows start before size + pad_begin.
  return min(count, ceil_div(size + pad_begin[d], stride[d]));
}

Window read_window(const OpView& v, std::vector<Expr> kernel, std::string& fault) {
  Window w;
  const size_t rank = kernel.size();
  w.kernel = std::move(kernel);
  auto list = [&](const char* name, size_t length, int64_t otherwise, int64_t least) {
    std::vector<Expr> out(length, Expr(otherwise));
    const auto given = v.integers(name);
    if (!given) return out;
    if (given->size() != length) {
      fault = std::string(name) + " has " + std::to_string(given->size()) + " entries, " + std::to_string(length) + " are wanted";
      return out;
    }
    for (size_t i = 0; i < length; ++i) {
      if ((*given)[i] < least) fault = std::string(name) + " holds " + std::to_string((*given)[i]);
      out[i] = (*given)[i];
    }
    return out;
  };
  w.stride = list("strides", rank, 1, 1);
  w.dilation = list("dilations", rank, 1, 1);
  const std::vector<Expr> pads = list("pads", 2 * rank, 0, -limits::dim);
  w.pad_begin.assign(pads.begin(), pads.begin() + static_cast<ptrdiff_t>(rank));
  w.pad_end.assign(pads.begin() + static_cast<ptrdiff_t>(rank), pads.end());
  w.auto_pad = v.string("auto_pad", "NOTSET");
  w.ceil_mode = v.integer("ceil_mode", 0) != 0;
  return w;
}

}  // namespace roofcast
