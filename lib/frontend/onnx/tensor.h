// TensorProto → type, stored bytes and, of small tensors, elements. Larger data is stepped over.
#pragma once

#include "ir/graph.h"

#include <optional>
#include <string_view>

namespace roofcast {

struct TensorSlices {
  std::string_view name;
  Tensor tensor;
  std::optional<Diagnostic> fault;
};

class TensorReader {
public:
  TensorReader(Module& module, std::string_view file) : m_(module), file_(file) {}
  TensorSlices read(std::string_view message);
  // A SparseTensorProto: its dense type, and the bytes that its values and indices take.
  TensorSlices read_sparse(std::string_view message);

private:
  Diagnostic fault(std::string_view code, std::string message, std::string_view name, uint64_t byte) const;

  Module& m_;
  std::string_view file_;
};

}  // namespace roofcast
