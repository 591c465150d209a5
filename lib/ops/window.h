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

  bool same() const { return auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER"; }
  Expr reach(size_t d) const { return (kernel[d] - 1) * dilation[d] + 1; }  // dilated kernel
  // Positions of the window along dim d of `size`.
  Expr output(size_t d, Expr size) const;
  // What a transposed convolution makes of `size`: the size that the same window would bring back.
  Expr transposed_output(size_t d, Expr size, Expr output_padding) const;
};

// From the attributes strides, dilations, pads, auto_pad and ceil_mode; `kernel` has one entry a
// spatial dim. A list of another length sets `fault`.
Window read_window(const OpView& view, std::vector<Expr> kernel, std::string& fault);

}  // namespace roofcast
