#include "command.h"
#include "options.h"

#include "report/views.h"
#include "roofcast/diff.h"
#include "support/diagnostic.h"

#include <iostream>

namespace roofcast::cli {
namespace {

struct Options {
  ModelOptions model;
  MachineOptions machine;
  ViewOptions view;
  std::string other;
  std::vector<std::string> fail_if;
};

Result<Analysis> analysis_of(const std::string& file, const std::string& hw, const Options& options, const LoadOptions& load_options) {
  if (file.ends_with(".json")) return read_analysis(file);
  const Result<Hardware> hardware = load_hardware(hw);
  if (!hardware) return hardware.error();
  const Result<Model> model = load(file, load_options);
  if (!model) return model.error();
  return analyze(*model, *hardware, {.model = options.machine.model, .causal = options.model.causal});
}

Result<int> run(const Options& options, const CommonOptions& common) {
  const Result<LoadOptions> load_options = options.model.parse();
  if (!load_options) return load_options.error();
  // "--hw A,B": one for each side.
  const std::string& hw = options.machine.hardware;
  const size_t comma = hw.find(',');
  const Result<Analysis> a = analysis_of(options.model.file, hw.substr(0, comma), options, *load_options);
  if (!a) return a.error();
  const Result<Analysis> b = analysis_of(options.other, comma == hw.npos ? hw : hw.substr(comma + 1), options, *load_options);
  if (!b) return b.error();
  const Diff d = diff(*a, *b);
  ViewOptions view = options.view;
  view.color = common.use_color();
  const std::string text = common.format == "json" ? to_json("roofcast/diff/1", d) : diff_text(d, view, common.format == "md");
  if (Status status = write_output(common, text); !status) return status.error();
  int code = 0;
  for (const std::string& rule : options.fail_if) {
    const auto failed = exceeds(d, rule);
    if (!failed) return error("usage", "--fail-if " + rule + " is not understood", {}, "time>+5%, mfu<-2%, with a field of totals");
    if (!*failed) continue;
    std::cerr << to_string(error("check-failed", rule + " holds", {}, "see the table of totals")) << '\n';
    code = 1;
  }
  return code;
}

std::function<Result<int>()> add(CLI::App& app, CommonOptions& common) {
  auto options = std::make_shared<Options>();
  options->model.add_to(app);
  app.add_option("OTHER", options->other, "second model, or a saved analysis (.json)")->required();
  options->machine.add_to(app);
  options->view.top = 10;
  app.add_option("--top", options->view.top, "rows of each table; 0: all")->capture_default_str()->group("Report");
  app.add_option("--fail-if", options->fail_if, "exit 1 if a total changes by more: time>+5%")->type_name("RULE")->group("Report");
  common.add_to(app, {"text", "json", "md"});
  return [options, &common] { return run(*options, common); };
}

}  // namespace

const Command diff_command = {"diff", "two analyses side by side: models, hardware, or saved JSON",
                              "  roofcast diff old.onnx new.onnx --fail-if 'time>+5%'\n"
                              "  roofcast diff model.onnx model.onnx --hw a100-sxm-80,h100-sxm\n"
                              "  roofcast diff before.json model.onnx --format md\n",
                              add};

}  // namespace roofcast::cli
