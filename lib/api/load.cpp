#include "roofcast/model.h"

#include "frontend/huggingface/build.h"
#include "frontend/inputs.h"
#include "frontend/onnx/read.h"
#include "passes/pass.h"
#include "support/diagnostic.h"

#include <chrono>
#include <filesystem>
#include <fstream>

namespace roofcast {

namespace {

// A config.json begins with a brace, which no ONNX file does.
bool is_config(std::string_view bytes) {
  const size_t first = bytes.find_first_not_of(" \t\r\n");
  return first != bytes.npos && bytes[first] == '{';
}

Result<std::string> build_bytes(const MappedFile& file, const std::string& path, const LoadOptions& options) {
  const Result<Transformer> dims = read_config(file.bytes(), path);
  if (!dims) return dims.error();
  const Form form = options.form == "decode" ? Form::decode : options.form == "train" ? Form::train : Form::prefill;
  return build_transformer(*dims, {form, options.attention == "eager"});
}

}  // namespace

Status build(const std::string& config, const std::string& target, const LoadOptions& options) {
  Result<std::shared_ptr<const MappedFile>> file = MappedFile::open(config);
  if (!file) return file.error();
  const Result<std::string> bytes = build_bytes(**file, config, options);
  if (!bytes) return bytes.error();
  std::ofstream out(target, std::ios::binary);
  out.write(bytes->data(), static_cast<std::streamsize>(bytes->size()));
  out.close();
  const std::filesystem::path empty = std::filesystem::path(target).parent_path() / no_weights;
  if (out && !std::filesystem::exists(empty)) std::ofstream(empty, std::ios::binary).close();
  if (!out) return error("file-missing", "cannot be written", {.file = target}, "check the folder and its rights");
  return Ok{};
}

Result<Model> load(const std::string& path, const LoadOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Result<std::shared_ptr<const MappedFile>> file = MappedFile::open(path);
  if (!file) return file.error();
  if (is_config((*file)->bytes())) {
    Result<std::string> bytes = build_bytes(**file, path, options);
    if (!bytes) return bytes.error();
    file = MappedFile::of_bytes(std::move(*bytes));
  }
  Result<std::unique_ptr<Module>> module = read_onnx(*file, path, options);
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
