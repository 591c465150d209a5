#include "frontend/onnx/captures.h"

#include "frontend/onnx/wire.h"
#include "support/limits.h"

#include <onnx-ml.pb.h>
#include <unordered_set>

namespace roofcast {
namespace {

using Names = std::unordered_set<std::string_view>;

void graph_names(std::string_view graph, Names& used, Names& defined, int depth);

void attribute_names(std::string_view attribute, Names& used, int depth) {
  WireReader reader(attribute, attribute);
  for (WireField f; reader.next(f);)
    if (f.type == 2 && (f.number == onnx::AttributeProto::kGFieldNumber || f.number == onnx::AttributeProto::kGraphsFieldNumber)) {
      Names inside, defined;
      graph_names(f.bytes, inside, defined, depth);
      for (std::string_view name : inside)
        if (!defined.contains(name)) used.insert(name);
    }
}

void graph_names(std::string_view graph, Names& used, Names& defined, int depth) {
  if (depth > limits::nesting_depth) return;
  auto name_in = [](std::string_view message, int number) {
    std::string_view name;
    WireReader reader(message, message);
    for (WireField f; reader.next(f);)
      if (f.type == 2 && f.number == static_cast<uint32_t>(number)) name = f.bytes;
    return name;
  };
  WireReader reader(graph, graph);
  for (WireField f; reader.next(f);) {
    if (f.type != 2) continue;
    switch (f.number) {
    case onnx::GraphProto::kNodeFieldNumber: {
      WireReader node(f.bytes, f.bytes);
      for (WireField part; node.next(part);) {
        if (part.type != 2) continue;
        if (part.number == onnx::NodeProto::kInputFieldNumber) used.insert(part.bytes);
        else if (part.number == onnx::NodeProto::kOutputFieldNumber) defined.insert(part.bytes);
        else if (part.number == onnx::NodeProto::kAttributeFieldNumber) attribute_names(part.bytes, used, depth + 1);
      }
      break;
    }
    case onnx::GraphProto::kInputFieldNumber: defined.insert(name_in(f.bytes, onnx::ValueInfoProto::kNameFieldNumber)); break;
    case onnx::GraphProto::kInitializerFieldNumber: defined.insert(name_in(f.bytes, onnx::TensorProto::kNameFieldNumber)); break;
    case onnx::GraphProto::kOutputFieldNumber: used.insert(name_in(f.bytes, onnx::ValueInfoProto::kNameFieldNumber)); break;
    default: break;
    }
  }
}

}  // namespace

void captured_names(std::string_view attribute, std::vector<std::string_view>& out) {
  Names used;
  attribute_names(attribute, used, 0);
  out.insert(out.end(), used.begin(), used.end());
}

}  // namespace roofcast
