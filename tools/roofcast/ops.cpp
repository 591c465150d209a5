#include "command.h"

#include "report/views.h"
#include "roofcast/ops.h"

namespace roofcast::cli {
namespace {

Result<int> run(const ListOptions& options, const CommonOptions& common) {
  const Result<OpListing> listing = list_ops(options);
  if (!listing) return listing.error();
  const std::string text = common.format == "json" ? to_json("roofcast/ops/1", *listing)
                           : common.format == "md" ? ops_markdown(*listing)
                           : common.format == "csv" ? ops_csv(*listing)
                                                    : ops_text(*listing, common.use_color());
  if (Status status = write_output(common, text); !status) return status.error();
  return 0;
}

std::function<Result<int>()> add(CLI::App& app, CommonOptions& common) {
  auto options = std::make_shared<ListOptions>();
  app.add_option("NAME", options->name, "operator to print, or a glob; without it, all");
  app.add_option("--ops", options->files, "custom ops to list beside (docs/custom-ops.md)")
      ->type_name("FILE")->allow_extra_args(false)->group("Model");
  common.add_to(app, {"text", "json", "csv", "md"});
  return [options, &common] { return run(*options, common); };
}

}  // namespace

const Command ops_command = {
    "ops", "every known operator: opset, kind, FLOPs and bytes formulas",
    "  roofcast ops\n  roofcast ops Conv\n  roofcast ops '*Attention*' --format json\n", add};

}  // namespace roofcast::cli
