#include "roofcast/annotate.h"

#include "frontend/onnx/write.h"
#include "ir/graph.h"
#include "support/diagnostic.h"

#include <fmt/format.h>

namespace roofcast {

Status annotate(const Model& model, const Analysis& analysis, const std::string& target) {
  const Module& m = model.module();
  if (m.node_origins.size() != m.nodes.size() || analysis.ops.size() != m.nodes.size())
    return error("file-kind", "only an ONNX file can be annotated", {.file = m.file}, "analyse the .onnx file itself");
  struct Sum {
    double flops = 0, bytes = 0, t_math = 0, t_comms = 0, time = 0;
    bool counted = true, timed = true;
    double longest = -1;
    std::string bound;
  };
  std::unordered_map<uint64_t, Sum> sums;
  for (size_t i = 0; i < m.nodes.size(); ++i) {
    const OpRow& row = analysis.ops[i];
    Sum& s = sums[m.node_origins[i]];
    s.counted &= row.flops.has_value(), s.timed &= row.time.has_value();
    s.flops += row.flops.value_or(0), s.bytes += row.bytes_read.value_or(0) + row.bytes_written.value_or(0);
    s.t_math += row.t_math.value_or(0), s.t_comms += row.t_comms.value_or(0), s.time += row.time.value_or(0);
    // Of a function's ops the longest one's bound stands for all.
    if (row.bound && row.time.value_or(0) > s.longest) s.bound = *row.bound, s.longest = row.time.value_or(0);
  }
  std::unordered_map<uint64_t, Properties> properties;
  for (const auto& [origin, s] : sums) {
    Properties& p = properties[origin];
    if (s.counted) p.push_back({"roofcast.flops", fmt::format("{:.0f}", s.flops)}), p.push_back({"roofcast.bytes", fmt::format("{:.0f}", s.bytes)});
    if (s.timed) {
      p.push_back({"roofcast.t_math", fmt::format("{:.6g}", s.t_math)});
      p.push_back({"roofcast.t_comms", fmt::format("{:.6g}", s.t_comms)});
      p.push_back({"roofcast.time", fmt::format("{:.6g}", s.time)});
    }
    if (!s.bound.empty()) p.push_back({"roofcast.bound", s.bound});
  }
  return write_annotated(m.file, target, "roofcast.", properties);
}

}  // namespace roofcast
