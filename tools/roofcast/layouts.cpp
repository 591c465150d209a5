#include "command.h"
#include "options.h"

#include "report/views.h"
#include "roofcast/layouts.h"

namespace roofcast::cli {
namespace {

struct Options {
  ModelOptions model;
  MachineOptions machine;
  LayoutFlags layout;
  ViewOptions view;
};

Result<int> run(const Options& options, const CommonOptions& common) {
  Result<LoadOptions> load_options = options.model.parse();
  if (!load_options) return load_options.error();
  if (options.layout.train) load_options->form = "train";
  load_options->keep_symbols = true;
  LayoutsOptions what;
  Result<ParallelOptions> parallel = options.layout.parse();
  if (!parallel) return parallel.error();
  Result<std::vector<int64_t>> devices = options.layout.parse_devices();
  if (!devices) return devices.error();
  what.parallel = std::move(*parallel), what.devices = std::move(*devices);
  if (options.layout.devices.empty() && what.parallel.layout) what.devices = {what.parallel.layout->devices()};
  what.model = options.machine.model, what.causal = options.model.causal, what.top = options.view.top ? options.view.top : 1000;
  const Result<Hardware> hardware = load_hardware(options.machine.hardware);
  if (!hardware) return hardware.error();
  const Result<Model> model = load(options.model.file, *load_options);
  if (!model) return model.error();
  const Result<LayoutSearch> result = layouts(*model, *hardware, what);
  if (!result) return result.error();
  ViewOptions view = options.view;
  view.color = common.use_color();
  const std::string text = common.format == "json" ? to_json("roofcast/layouts/1", *result)
                           : common.format == "csv" ? layouts_csv(*result) : layouts_text(*result, view);
  if (Status status = write_output(common, text); !status) return status.error();
  print_warnings(common, result->warnings);
  return 0;
}

std::function<Result<int>()> add(CLI::App& app, CommonOptions& common) {
  auto options = std::make_shared<Options>();
  options->view.top = 10;
  options->model.add_to(app);
  options->machine.add_to(app);
  options->layout.add_to(app);
  app.add_option("--top", options->view.top, "layouts shown; 0: up to 1000")->capture_default_str()->group("Report");
  common.add_to(app, {"text", "json", "csv"});
  return [options, &common] { return run(*options, common); };
}

}  // namespace

const Command layouts_command = {"layouts", "parallel layouts, ranked by time among those that fit",
                                 "  roofcast layouts config.json --hw dgx-h100 --devices 64 --global-batch 512 --train --set seq=4096\n"
                                 "  roofcast layouts llama.onnx --hw dgx-h100 --devices 8..1024 --layout tp=8 --set batch=8,seq=2048\n",
                                 add};

}  // namespace roofcast::cli
