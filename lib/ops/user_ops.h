// Custom ops from a file: their shapes and costs as formulas of dims and attributes.
//
//   [[op]]
//   domain = "my.ops"
//   name = "GatedMlp"
//   kind = "contraction"
//   access = "b.. k, k n, k n -> b.. n"
//   matrix_flops = "4*b*k*n"
//   vector_flops = "6*b*n"
//
// docs/custom-ops.md says what each key means. A row of the op table carries its UserOp, whose
// formulas are read again for each instance, so names stand for that instance's sizes.
#pragma once

#include "ops/op_info.h"

#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace roofcast {

struct UserOp {
  struct AttributeDefault {
    std::string name;
    std::vector<int64_t> values;
    bool is_list = false;
  };
  // Element type of an output: that of an input, or one named.
  struct OutputType {
    size_t input = 0;
    DType named = DType::undefined;
  };

  std::string domain, name, access, source, formula;
  std::vector<std::string> loops;  // names in `access`
  std::vector<AttributeDefault> attributes;
  std::vector<std::pair<std::string, std::string>> sizes;  // of loops that no input shows
  std::vector<OutputType> dtypes;
  std::string matrix_flops = "0", vector_flops = "0";
  std::optional<std::string> bytes_read, bytes_written;
  OpInfo row;  // its texts are those above
};

struct UserOps {
  std::deque<UserOp> ops;  // rows point into it
};

// Codes: file-missing, ops-key (with the line).
Result<std::shared_ptr<const UserOps>> load_user_ops(const std::string& file);

}  // namespace roofcast
