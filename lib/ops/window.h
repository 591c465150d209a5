// Sliding windows: kernel, stride, dilation and padding of convolutions and pooling.
#pragma once

#include "ops/op_info.h"

#include <string>
#include <vector>

namespace roofcast {

struct Window {
  std::vector<Expr> kernel, stride, dilation, pad_begin, pad_end;  // by spatial dim
  std::string auto_pad = "NOTSET";
  bool ceil_mode = false;

  Expr reach(size_t d) const { return (kernel[d] - 1) * dilation[d] + 1; }  // dilated kernel
  // Positions along dim d of `size`. `past_end`: a window of ceil_mode may start in the end padding.
  Expr output(size_t d, Expr size, bool past_end = false) const;
};

// From the attributes strides, dilations, pads, auto_pad and ceil_mode; `kernel` has one entry a
// spatial dim. A list of another length sets `fault`.
Window read_window(const OpView& view, std::vector<Expr> kernel, std::string& fault);

}  // namespace roofcast
