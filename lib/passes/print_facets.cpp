// print-facets: what the op table makes of each node, one line a node, for people and golden tests.
#include "ops/count.h"
#include "ops/op_info.h"
#include "passes/pass.h"

#include <cstdio>

namespace roofcast {

Status print_facets(Module& m, const PassOptions&) {
  std::string out;
  for (uint32_t i = 0; i < m.nodes.size(); ++i) {
    const Node& node = m.nodes[i];
    if (!node.instance.valid()) continue;
    const Instance& instance = m.instances[node.instance.index];
    const Work work = count_work(m, instance);
    out += display_name(m, NodeId{i}) + ":";
    for (Type t : instance.outputs) out += " " + to_string(t);
    out += "  " + std::string(name(work.kind));
    if (!work.access.empty()) out += "  " + work.access.text();
    if (!work.uncounted.empty()) {
      out += "  uncounted: " + std::string(work.uncounted) + "\n";
      continue;
    }
    Expr read = 0, written = 0;
    for (Expr e : work.reads) read += e;
    for (Expr e : work.writes) written += e;
    for (const auto& [what, amount] : {std::pair("matrix", work.matrix_flops), std::pair("vector", work.vector_flops), std::pair("read", read), std::pair("written", written)})
      if (amount != Expr(0)) out += std::string("  ") + what + " " + amount.text();
    out += "\n";
  }
  std::fwrite(out.data(), 1, out.size(), stdout);
  return Ok{};
}

}  // namespace roofcast
