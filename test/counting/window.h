// Random windows, and where they lie: by stepping along, not by formula.
#pragma once

#include "counting/compare.h"

#include <string>

namespace counting {

struct Windows {
  Shape size, kernel, stride, dilation, begin, end;  // by spatial dim
  std::string auto_pad = "NOTSET";
  bool ceil_mode = false;

  int64_t reach(size_t d) const { return (kernel[d] - 1) * dilation[d] + 1; }

  // Starts of the windows along dim d. SAME: one for each stride that begins inside; else those
  // that fit in the padded dim, and under ceil_mode one more if places are left and it starts
  // before the end padding.
  int64_t positions(size_t d) const {
    const bool same = auto_pad.starts_with("SAME");
    const int64_t padded = size[d] + begin[d] + end[d];
    int64_t count = 0;
    for (int64_t at = 0; at < padded; at += stride[d]) {
      const bool fits = at + reach(d) <= padded;
      const bool rest = ceil_mode && at < size[d] + begin[d] &&
                        (at == 0 || at - stride[d] + reach(d) < padded);
      if (same ? at < size[d] : fits || rest) ++count;
    }
    return count;
  }
  Shape output() const {
    Shape out;
    for (size_t d = 0; d < size.size(); ++d) out.push_back(positions(d));
    return out;
  }
  // The place in the data that kernel position r of output position y falls on; the padding's width
  // does not change what is counted.
  int64_t place(size_t d, int64_t y, int64_t r) const {
    return y * stride[d] + r * dilation[d] - begin[d];
  }

  void set_attributes(OneOp& op, bool with_dilation = true) const {
    op.set("strides", stride).set("auto_pad", auto_pad.c_str());
    if (with_dilation) op.set("dilations", dilation);
    if (auto_pad == "NOTSET") {
      Shape pads = begin;
      pads.insert(pads.end(), end.begin(), end.end());
      op.set("pads", pads);
    }
    if (ceil_mode) op.set("ceil_mode", 1);
  }
};

// Windows that fit in their data.
inline Windows random_windows(Random& random, size_t rank, bool with_ceil, bool dilated = true) {
  Windows w;
  static constexpr const char* modes[] = {"NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"};
  w.auto_pad = modes[random(0, 4)];
  w.ceil_mode = with_ceil && random.coin();
  for (size_t d = 0; d < rank; ++d) {
    w.kernel.push_back(random(1, 3));
    w.stride.push_back(random(1, 3));
    w.dilation.push_back(dilated ? random(1, 2) : 1);
    w.size.push_back(w.reach(d) + random(0, 4));
    w.begin.push_back(w.auto_pad == "NOTSET" ? random(0, w.kernel[d] - 1) : 0);
    w.end.push_back(w.auto_pad == "NOTSET" ? random(0, w.kernel[d] - 1) : 0);
  }
  return w;
}

inline Shape joined(Shape a, const Shape& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace counting
