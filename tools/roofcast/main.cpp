// The `roofcast` program: a table of commands, each in a file of its own.
#include "command.h"

#include "report/json.h"
#include "support/diagnostic.h"

#include <cstring>
#include <iostream>

namespace roofcast::cli {
namespace {

const Command* const commands[] = {
    &analyze_command,
    &diagnose_command,
    &diff_command,
    &hw_command,
    &layouts_command,
    &fuse_command,
    &build_command,
    &sweep_command,
    &ops_command,
    &validate_command,
    &calibrate_command,
};

// An error goes to stderr in one line, and with --format json to stdout as a document too.
int fail(const Diagnostic& diagnostic, bool json) {
  std::cerr << to_string(diagnostic) << '\n';
  if (json) std::cout << error_to_json(diagnostic);
  return diagnostic.exit_code();
}

bool wants_json(int argc, char** argv) {
  for (int i = 1; i < argc; ++i)
    if (std::strcmp(argv[i], "--format=json") == 0 ||
        (std::strcmp(argv[i], "--format") == 0 && i + 1 < argc && std::strcmp(argv[i + 1], "json") == 0))
      return true;
  return false;
}

int run(int argc, char** argv) {
  CLI::App app("roofcast: what will bound a neural network - compute, memory or communication - before it runs.",
               "roofcast");
  app.require_subcommand(1);
  app.set_version_flag("--version", ROOFCAST_VERSION);
  struct Entry {
    CLI::App* app;
    CommonOptions common;
    std::function<Result<int>()> run;
  };
  std::vector<Entry> entries(std::size(commands));
  for (size_t i = 0; i < std::size(commands); ++i) {
    entries[i].app = app.add_subcommand(commands[i]->name, commands[i]->summary);
    entries[i].app->footer(std::string("Examples:\n") + commands[i]->examples);
    entries[i].run = commands[i]->add(*entries[i].app, entries[i].common);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& parse_error) {
    return fail(error("usage", parse_error.what(), {}, "see `roofcast --help`"), wants_json(argc, argv));
  }
  for (Entry& entry : entries) {
    if (!entry.app->parsed()) continue;
    const Result<int> code = entry.run();
    return code ? *code : fail(code.error(), entry.common.format == "json");
  }
  return 0;
}

}  // namespace
}  // namespace roofcast::cli

int main(int argc, char** argv) {
  try {
    return roofcast::cli::run(argc, argv);
  } catch (const std::exception& unexpected) {
    std::cerr << to_string(roofcast::error("internal", unexpected.what(), {}, "please report this")) << '\n';
    return 70;
  }
}
