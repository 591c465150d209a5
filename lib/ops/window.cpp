#include "ops/window.h"

namespace roofcast {

Expr Window::output(size_t d, Expr size) const {
  if (same()) return ceil_div(size, stride[d]);
  const Expr room = size + pad_begin[d] + pad_end[d] - reach(d);
  // A window that does not fit: runtimes divide towards zero.
  if (room.is_constant() && room.constant() < 0) return 1 - floor_div(-room, stride[d]);
  if (!ceil_mode) return floor_div(room, stride[d]) + 1;
  // One window more for what is left, unless it would start in the end padding.
  const Expr last = min(0, pad_end[d] - reach(d) + stride[d]);
  return ceil_div(size + pad_begin[d] + last, stride[d]);
}

Expr Window::transposed_output(size_t d, Expr size, Expr output_padding) const {
  const Expr full = stride[d] * (size - 1) + output_padding + reach(d);
  // SAME cuts down to size · stride; it never pads the result.
  return same() ? min(size * stride[d], full) : full - pad_begin[d] - pad_end[d];
}

Window read_window(const OpView& v, std::vector<Expr> kernel, std::string& fault) {
  Window w;
  const size_t rank = kernel.size();
  w.kernel = std::move(kernel);
  auto list = [&](const char* name, size_t length, int64_t otherwise, int64_t least) {
    std::vector<Expr> out(length, Expr(otherwise));
    const auto given = v.integers(name);
    if (!given || given->empty()) return out;
    if (given->size() != length) {
      fault = std::string(name) + " has " + std::to_string(given->size()) + " entries, " +
              std::to_string(length) + " are wanted";
      return out;
    }
    for (size_t i = 0; i < length; ++i) {
      if ((*given)[i] < least) fault = std::string(name) + " holds " + std::to_string((*given)[i]);
      else out[i] = (*given)[i];
    }
    return out;
  };
  w.stride = list("strides", rank, 1, 1);
  w.dilation = list("dilations", rank, 1, 1);
  w.auto_pad = v.string("auto_pad", "NOTSET");
  w.ceil_mode = v.integer("ceil_mode", 0) != 0;
  std::vector<Expr> pads(2 * rank, 0);
  if (w.auto_pad != "VALID") pads = list("pads", 2 * rank, 0, -limits::dim);
  w.pad_begin.assign(pads.begin(), pads.begin() + static_cast<ptrdiff_t>(rank));
  w.pad_end.assign(pads.begin() + static_cast<ptrdiff_t>(rank), pads.end());
  return w;
}

}  // namespace roofcast
