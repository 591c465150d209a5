#include "ops/op_table.h"

#include <unordered_map>
#include <algorithm>

namespace roofcast {
namespace {

std::string_view canonical(std::string_view domain) { return domain == "ai.onnx" ? std::string_view() : domain; }

struct Index {
  // All rows of one name, by rising `since`.
  std::unordered_map<std::string, std::vector<const OpInfo*>> rows;
  static std::string key(std::string_view domain, std::string_view name) {
    return std::string(domain) + ":" + std::string(name);
  }
  Index() {
    for (OpFamily family : op_families())
      for (const OpInfo& op : family) rows[key(op.domain, op.name)].push_back(&op);
    for (auto& [name, list] : rows)
      std::sort(list.begin(), list.end(), [](const OpInfo* a, const OpInfo* b) { return a->since < b->since; });
  }
};

}  // namespace

std::span<const OpFamily> op_families() {
  static const OpFamily families[] = {
      contraction_ops(),  convolution_ops(), attention_ops(),     recurrent_ops(), moe_ops(),
      pointwise_ops(),    reduction_ops(),   normalization_ops(), pooling_ops(),   softmax_ops(),
      movement_ops(),     indexing_ops(),    shape_ops(),         quantization_ops(), random_ops(),
      sort_ops(),         signal_ops(),      image_ops(),         sequence_ops(),  control_ops(),
      classic_ml_ops(),   optimizer_ops(),   contrib_ops(),       packed_attention_ops(),
      position_ops(),     state_space_ops(), packed_matmul_ops(), generation_ops(),
  };
  return families;
}

const OpInfo* find_op(std::string_view domain, std::string_view name, int opset) {
  static const Index index;
  domain = canonical(domain);
  const OpInfo* best = nullptr;
  if (auto at = index.rows.find(Index::key(domain, name)); at != index.rows.end()) {
    // An op older than any row is taken as the first one.
    best = at->second.front();
    for (const OpInfo* op : at->second)
      if (op->since <= opset) best = op;
  }
  if (!best && domain.empty()) return find_op("com.microsoft", name, 1);
  return best;
}

const OpInfo* find_op(std::span<const OpInfo* const> custom, std::string_view domain,
                      std::string_view name, int opset) {
  const OpInfo* best = nullptr;
  for (const OpInfo* op : custom)
    if (canonical(op->domain) == canonical(domain) && op->name == name && op->since <= opset &&
        (!best || op->since > best->since))
      best = op;
  return best ? best : find_op(domain, name, opset);
}

}  // namespace roofcast
