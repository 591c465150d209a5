#include "roofcast/model.h"

#include "frontend/inputs.h"
#include "frontend/onnx/read.h"
#include "passes/pass.h"

#include <chrono>

namespace roofcast {

Result<Model> load(const std::string& path, const LoadOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Result<std::unique_ptr<Module>> module = read_onnx(path, options);
  if (!module) return std::move(module.error());
  Model model{std::shared_ptr<Module>(std::move(*module))};
  model.times_.push_back({"read", std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()});

  std::string pipeline = "infer";
  if (!options.dtype.empty() || !options.weight_dtype.empty()) {
    pipeline += ",retype{";
    if (!options.dtype.empty()) pipeline += "to=" + options.dtype + ",";
    if (!options.weight_dtype.empty()) pipeline += "weights=" + options.weight_dtype;
    pipeline += "}";
  }
  if (Status status = run_pipeline(model.module(), pipeline, &model.times_); !status) return std::move(status.error());
  if (Status status = bind_symbols(model.module(), options); !status) return std::move(status.error());
  return model;
}

}  // namespace roofcast
