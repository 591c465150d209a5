// Binds a user's --set, --shape and --value to the inputs of a freshly read graph.
#pragma once

#include "ir/graph.h"
#include "roofcast/load_options.h"

namespace roofcast {

// Constants for symbols by `set`, resolved as symbols come into being.
class SymbolSettings {
public:
  explicit SymbolSettings(const LoadOptions& options) : options_(options) {}
  std::optional<int64_t> find(std::string_view symbol) const;  // exact name first, then globs in order

private:
  const LoadOptions& options_;
};

// True if `text` matches `pattern`, where * stands for any text and ? for one character.
bool glob_match(std::string_view pattern, std::string_view text);

// Replaces the types of the main region's inputs by what `shapes` says, solves their symbols, and
// gives inputs their values. Symbols solved are added to `solved`.
Status bind_inputs(Module& module, const LoadOptions& options, Bindings& solved);

// After inference: settings for symbols that came into being since (data-dependent sizes, branches) go
// to `module.bound`; a setting that no symbol has is an error.
Status bind_symbols(Module& module, const LoadOptions& options);

}  // namespace roofcast
