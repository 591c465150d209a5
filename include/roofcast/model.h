// A model file as roofcast holds it: graph, shapes and symbols, without weights.
//
//   Result<Model> model = load("m.onnx", {.set = {{"batch", 8}}});
#pragma once

#include "roofcast/load_options.h"
#include "roofcast/result.h"

#include <memory>
#include <string>
#include <vector>

namespace roofcast {

struct Module;

struct PassTime {
  std::string pass;
  double seconds;
};

// Opaque handle; copies share the graph. Not thread-safe.
class Model {
public:
  explicit Model(std::shared_ptr<Module> module) : module_(std::move(module)) {}
  Module& module() const { return *module_; }
  const std::vector<PassTime>& times() const { return times_; }

private:
  friend Result<Model> load(const std::string& path, const LoadOptions& options);
  std::shared_ptr<Module> module_;
  std::vector<PassTime> times_;
};

// Reads the file, infers all shapes, and retypes if the options say so. A fault in the file names the
// file and the node or byte.
// A Hugging Face config.json is built as `options.form` says. Codes: config-json, config-key,
// config-model-type beside those of files.
Result<Model> load(const std::string& path, const LoadOptions& options);

// Writes the model of a config.json as ONNX without weights (onnx.checker takes it).
Status build(const std::string& config, const std::string& target, const LoadOptions& options);

}  // namespace roofcast
