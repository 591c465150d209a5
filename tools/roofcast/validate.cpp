#include "command.h"
#include "options.h"

#include "report/views.h"
#include "roofcast/calibrate.h"
#include "roofcast/validate.h"
#include "support/diagnostic.h"

#include <csignal>
#include <iostream>

namespace roofcast::cli {
namespace {

std::atomic<bool> interrupted = false;

struct Options {
  ModelOptions model;
  MachineOptions machine;
  ValidateOptions validate;
  std::string cache = "cold", html;
};

// --hw, or a calibration here and now: another machine's spec would say nothing of this one's times.
Result<Hardware> hardware_of(const Options& options, const CommonOptions& common) {
  if (!options.machine.hardware.empty()) return load_hardware(options.machine.hardware);
  if (!common.quiet) std::cerr << "no --hw: calibrating first (`roofcast calibrate -o here.toml` keeps it)\n";
  Result<Calibration> calibration = calibrate({.on = options.validate.on, .threads = common.threads == 0 ? 1 : common.threads, .stop = &interrupted});
  if (!calibration) return std::move(calibration.error());
  return std::move(calibration->hardware);
}

Result<int> run(const Options& options, const CommonOptions& common) {
  // The first interrupt ends the measuring, a second one the program.
  std::signal(SIGINT, [](int) {
    interrupted = true;
    std::signal(SIGINT, SIG_DFL);
  });
  const Result<LoadOptions> load_options = options.model.parse();
  if (!load_options) return load_options.error();
  const Result<Hardware> hardware = hardware_of(options, common);
  if (!hardware) return hardware.error();
  const Result<Model> model = load(options.model.file, *load_options);
  if (!model) return model.error();
  ValidateOptions what = options.validate;
  what.cold = options.cache == "cold";
  what.causal = options.model.causal;
  what.threads = common.threads == 0 ? 1 : common.threads;
  what.stop = &interrupted;
  const Result<Validation> validation = validate(*model, *hardware, what);
  if (!validation) return validation.error();
  const std::string text = common.format == "json" ? to_json("roofcast/validation/1", *validation)
                           : common.format == "csv" ? validation_csv(*validation)
                                                    : validation_text(*validation, common.use_color(), common.format == "md");
  if (Status status = write_output(common, text); !status) return status.error();
  if (!options.html.empty())
    if (Status status = write_file(options.html, validation_html(*validation)); !status) return status.error();
  print_warnings(common, validation->warnings);
  return validation->interrupted || (common.strict && !validation->skipped.empty()) ? 1 : 0;
}

std::function<Result<int>()> add(CLI::App& app, CommonOptions& common) {
  auto options = std::make_shared<Options>();
  options->machine.hardware.clear();
  options->model.add_to(app);
  app.add_option("--hw", options->machine.hardware, "hardware spec of the predictions; without it, this machine is calibrated first")
      ->type_name("NAME|FILE")->group("Machine");
  app.add_option("--on", options->validate.on, "what runs the ops")->check(CLI::IsMember({"cpu", "cuda"}))->capture_default_str()->group("Run");
  app.add_option("--select", options->validate.select, "top:N by predicted time, all, or names of nodes or ops")->capture_default_str()->group("Run");
  app.add_option("--runs", options->validate.runs, "least number of runs of each op")->check(CLI::Range(1, 100000))->capture_default_str()->group("Run");
  app.add_option("--cache", options->cache, "operands before each run: in no cache, or as the run before left them")
      ->check(CLI::IsMember({"cold", "warm"}))->capture_default_str()->group("Run");
  app.add_option("--profile", options->validate.profile, "profile of ONNX Runtime to compare with instead of running")->type_name("FILE")->group("Run");
  app.add_option("--html", options->html, "write a report with a scatter, one file")->type_name("FILE")->group("Report");
  common.add_to(app, {"text", "json", "csv", "md"});
  return [options, &common] { return run(*options, common); };
}

}  // namespace

const Command validate_command = {"validate", "times a model's ops on this machine and compares with the prediction",
                                  "  roofcast calibrate --on cpu -o here.toml\n"
                                  "  roofcast validate model.onnx --on cpu --hw here.toml --threads 1\n"
                                  "  roofcast validate model.onnx --hw here.toml --profile onnxruntime_profile.json\n",
                                  add};

}  // namespace roofcast::cli
