#include "command.h"
#include "options.h"

#include "roofcast/model.h"
#include "support/diagnostic.h"

namespace roofcast::cli {
namespace {

struct Options {
  std::string config, form = "prefill", attention = "fused";
};

Result<int> run(const Options& options, const CommonOptions& common) {
  if (common.output.empty()) return error("usage", "-o FILE.onnx is missing", {}, "roofcast build config.json -o model.onnx");
  LoadOptions what;
  what.form = options.form, what.attention = options.attention;
  if (Status status = build(options.config, common.output, what); !status) return status.error();
  return 0;
}

std::function<Result<int>()> add(CLI::App& app, CommonOptions& common) {
  auto options = std::make_shared<Options>();
  app.add_option("CONFIG", options->config, "Hugging Face config.json")->required();
  app.add_option("--form", options->form, "prefill, decode (one token on a KV cache) or train")
      ->check(CLI::IsMember({"prefill", "decode", "train"}))->capture_default_str()->group("Model");
  app.add_option("--attention", options->attention, "one fused op, or eager products and softmax")
      ->check(CLI::IsMember({"fused", "eager"}))->capture_default_str()->group("Model");
  common.add_to(app, {"text", "json"});
  return [options, &common] { return run(*options, common); };
}

}  // namespace

const Command build_command = {"build", "weight-free ONNX from a Hugging Face config.json",
                               "  roofcast build config.json -o model.onnx\n"
                               "  roofcast build config.json --form decode -o decode.onnx\n",
                               add};

}  // namespace roofcast::cli
