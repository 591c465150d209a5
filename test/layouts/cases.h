// Models of ../shared under layouts, for tests: what one rank sends, by axis, phase and collective.
//
//   Case gpt3(config("gpt3-175b"), {{"seq", 2048}}, {.step = {.training = true}, .global_batch = 8});
//   gpt3.sent("dp=8").at({"dp", Phase::backward, CollectiveKind::all_reduce})
#pragma once

#include "search/layouts.h"

#include "roofcast/model.h"

#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace roofcast {

using Symbols = std::vector<std::pair<std::string, int64_t>>;
std::string config(const std::string& name);    // of ../shared/models/configs
std::string exported(const std::string& name);  // of ../shared/models
bool present(const std::string& file);          // else says so, and the test is skipped

class Case {
public:
  Case(const std::string& file, const Symbols& symbols, LayoutModelOptions options, const char* hardware = "dgx-a100-80",
       const std::string& attention = "fused", const std::string& dtype = "bf16");

  using Key = std::tuple<std::string, Phase, CollectiveKind>;
  struct Sent {
    double bytes = 0, each = 0;  // of a step; of the largest call
    int64_t calls = 0;           // of that size
  };
  Step step(const std::string& layout);
  // Of the pieces that repeat, or of all.
  std::map<Key, Sent> sent(const std::string& layout, bool blocks_only = true);
  // The model's repeated block as it is costed.
  Piece block(const std::string& layout);
  LayoutModel& layouts() { return *layouts_; }

private:
  Hardware hardware_;
  Model model_;
  std::unique_ptr<LayoutModel> layouts_;
};

}  // namespace roofcast
