#include "command.h"
#include "options.h"

#include "report/views.h"
#include "roofcast/fuse.h"

#include <algorithm>

namespace roofcast::cli {
namespace {

struct Options {
  ModelOptions model;
  MachineOptions machine;
  LayoutFlags layout;
  ViewOptions view;
  bool apply = false;
  std::string annotate;
};

Result<int> run(const Options& options, const CommonOptions& common) {
  Result<LoadOptions> load_options = options.model.parse();
  if (!load_options) return load_options.error();
  Result<ParallelOptions> parallel = options.layout.parse();
  if (!parallel) return parallel.error();
  load_options->keep_symbols = parallel->layout.has_value();
  const Result<Hardware> hardware = load_hardware(options.machine.hardware);
  if (!hardware) return hardware.error();
  const Result<Model> model = load(options.model.file, *load_options);
  if (!model) return model.error();
  const Result<FusionPlan> plan = fuse(*model, *hardware, {.model = options.machine.model, .causal = options.model.causal, .apply = options.apply, .parallel = std::move(*parallel)});
  if (!plan) return plan.error();
  ViewOptions view = options.view;
  view.color = common.use_color();
  const std::string text = common.format == "json"  ? to_json("roofcast/fusion/1", *plan)
                           : common.format == "csv" ? fusion_csv(*plan)
                           : common.format == "md"  ? fusion_markdown(*plan, view)
                                                    : fusion_text(*plan, view);
  if (Status status = write_output(common, text); !status) return status.error();
  if (!options.annotate.empty())
    if (Status status = annotate(*model, *plan, options.annotate); !status) return status.error();
  print_warnings(common, plan->warnings);
  const bool uncounted = std::any_of(plan->warnings.begin(), plan->warnings.end(), [](const Diagnostic& w) { return w.code == "op-unknown" || w.code == "op-no-work"; });
  return common.strict && uncounted ? 1 : 0;
}

std::function<Result<int>()> add(CLI::App& app, CommonOptions& common) {
  auto options = std::make_shared<Options>();
  options->model.add_to(app);
  options->machine.add_to(app);
  options->layout.add_layout_to(app);
  app.add_option("--top", options->view.top, "groups shown; 0: all")->capture_default_str()->group("Report");
  app.add_flag("--apply", options->apply, "analyse the model with the groups as ops")->group("Report");
  app.add_option("--annotate", options->annotate, "write a copy of the model with each node's group in its metadata_props")
      ->type_name("FILE.onnx")->group("Report");
  common.add_to(app, {"text", "json", "csv", "md"});
  return [options, &common] { return run(*options, common); };
}

}  // namespace

const Command fuse_command = {"fuse", "groups of ops worth running as one kernel, and what each saves",
                              "  roofcast fuse bert.onnx --hw a100-sxm-80 --set batch=1,seq=128\n"
                              "  roofcast fuse llama.onnx --apply --format json\n"
                              "  roofcast fuse llama.onnx --hw dgx-h100 --layout tp=8,sp --set batch=8,seq=2048\n",
                              add};

}  // namespace roofcast::cli
