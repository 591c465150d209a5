#include "command.h"

#include "report/views.h"
#include "roofcast/hardware.h"
#include "support/diagnostic.h"

#include <iostream>

namespace roofcast::cli {
namespace {

struct Options {
  std::string name, check;
};

struct Listing {
  std::vector<Hardware> hardware;
  std::vector<Diagnostic> warnings;
};
template <class F> void fields(F&& field, const Listing& l) {
  field("hardware", l.hardware, Unit::none, "all that are shipped");
  field("warnings", l.warnings, Unit::none, "faults that do not end the command");
}

Result<int> run(const Options& options, const CommonOptions& common) {
  const bool json = common.format == "json";
  if (!options.check.empty()) {
    const std::vector<Diagnostic> faults = check_hardware(options.check);
    for (size_t i = 1; i < faults.size(); ++i) std::cerr << to_string(faults[i]) << '\n';
    if (!faults.empty()) return faults.front();
    if (Status status = write_output(common, json ? to_json("roofcast/hw/1", *load_hardware(options.check)) : options.check + ": ok\n"); !status)
      return status.error();
    return 0;
  }
  std::string text;
  if (options.name.empty()) {
    Listing all;
    for (const std::string& name : hardware_names()) {
      Result<Hardware> hardware = load_hardware(name);
      if (!hardware) return hardware.error();
      all.hardware.push_back(std::move(*hardware));
    }
    text = json ? to_json("roofcast/hw-list/1", all) : hardware_list_text(all.hardware, common.use_color());
  } else {
    const Result<Hardware> hardware = load_hardware(options.name);
    if (!hardware) return hardware.error();
    text = json ? to_json("roofcast/hw/1", *hardware) : hardware_text(*hardware, common.use_color());
  }
  if (Status status = write_output(common, text); !status) return status.error();
  return 0;
}

std::function<Result<int>()> add(CLI::App& app, CommonOptions& common) {
  auto options = std::make_shared<Options>();
  app.add_option("NAME", options->name, "hardware to print; without it, a list of all");
  app.add_option("--check", options->check, "check a hardware file, every fault with its line")->type_name("FILE")->group("Machine");
  common.add_to(app);
  return [options, &common] { return run(*options, common); };
}

}  // namespace

const Command hw_command = {"hw", "hardware specs: peaks, memories, links, and their sources",
                            "  roofcast hw\n  roofcast hw h100-sxm\n  roofcast hw --check my_gpu.toml\n", add};

}  // namespace roofcast::cli
