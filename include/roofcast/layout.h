// A parallel layout: how many devices share which part of the work.
//
//   Result<Layout> l = parse_layout("dp=2,tp=4,pp=2,mb=8,sp,recompute=full");
//   l->devices()     16
#pragma once

#include "roofcast/fields.h"
#include "roofcast/result.h"

#include <string>
#include <string_view>

namespace roofcast {

struct Layout {
  int64_t dp = 1, tp = 1, pp = 1, cp = 1, ep = 1;
  int64_t zero = 0;                  // 1: optimizer, 2: gradients too, 3: weights too (FSDP)
  bool sp = false, sp_auto = false;  // sequence parallelism on the tensor axis; auto: if it is quicker
  bool keep_gathered = false;        // with sp: what was gathered for forward is kept whole for backward
  int64_t microbatches = 1;
  std::string recompute = "none";    // none | selective | full
  int64_t interleave = 1;            // chunks of a pipeline stage
  std::string schedule = "1f1b";     // 1f1b | gpipe | zero-bubble

  int64_t devices() const { return dp * tp * pp * cp; }
  std::string text() const;          // "dp=2,tp=4", axes of one left out
};

// Axes dp tp pp cp ep; mb, zero, sp, recompute, vpp, schedule. Code: usage.
Result<Layout> parse_layout(std::string_view text);

template <class F> void fields(F&& field, const Layout& l) {
  field("dp", l.dp, Unit::count, "data-parallel ranks");
  field("tp", l.tp, Unit::count, "tensor-parallel ranks");
  field("pp", l.pp, Unit::count, "pipeline stages");
  field("cp", l.cp, Unit::count, "context-parallel ranks");
  field("ep", l.ep, Unit::count, "expert-parallel ranks");
  field("zero", l.zero, Unit::none, "ZeRO stage");
  field("sp", l.sp, Unit::none, "sequence parallelism");
  field("microbatches", l.microbatches, Unit::count, "microbatches of a step");
  field("recompute", l.recompute, Unit::none, "activations computed again in backward");
  if (l.interleave > 1) field("vpp", l.interleave, Unit::count, "chunks of a stage");
  if (l.schedule != "1f1b") field("schedule", l.schedule, Unit::none, "of the pipeline");
  field("devices", l.devices(), Unit::count, "devices of the whole layout");
}

}  // namespace roofcast
