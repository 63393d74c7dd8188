#include "rendezvous/launch_key.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "facts/secrets.hpp"
#include "plan/rendezvous_plan.hpp"

namespace ddprun::rendezvous {

namespace {

constexpr char k_separator = '\n';
constexpr std::string_view k_by_hand = "manual/";
constexpr std::size_t k_width = 120;

struct KeyParts {
  std::string_view launch;  // "manual/none"
  bool by_command = false;
  std::string_view command;  // cut with the key
};

KeyParts split_key(std::string_view key) {
  const std::size_t mark = key.find(plan::k_command_mark);
  if (mark == std::string_view::npos) return {key, false, {}};
  const std::size_t command = key.find(k_separator, mark);
  return {key.substr(0, mark), true,
          command == std::string_view::npos ? std::string_view() : key.substr(command + 1)};
}

// Returns the name of a launch for people. One by hand has only that of --rdzv-id, and "none" is torchrun's
// default.
std::string name_of_launch(std::string_view launch) {
  if (!launch.starts_with(k_by_hand)) return "job " + printable(launch);
  const std::string_view id = launch.substr(k_by_hand.size());
  return id == "none" ? "no --rdzv-id" : fmt::format("--rdzv-id {}", printable(id));
}

// Shows two texts that differ; if one is long, from the word on in which they do.
std::pair<std::string, std::string> show_both(std::string_view own, std::string_view other) {
  std::string_view dots;
  if (std::max(own.size(), other.size()) > k_width) {
    const auto differ = std::ranges::mismatch(own, other);
    const auto same = static_cast<std::size_t>(differ.in1 - own.begin());
    const std::size_t word = own.substr(0, same).rfind(' ') + 1;
    dots = word > 0 ? "... " : "";
    own.remove_prefix(word);
    other.remove_prefix(word);
  }
  return {fmt::format("{}{}", dots, printable(own, k_width)),
          fmt::format("{}{}", dots, printable(other, k_width))};
}

}  // namespace

std::string with_command(const std::string& launch_key, const std::vector<std::string>& command) {
  if (launch_key.find(plan::k_command_mark) == std::string::npos) return launch_key;
  return launch_key + k_separator + shell_quote(facts::mask_words(command));
}

std::string describe_other_launch(std::string_view own_key, std::string_view other_key) {
  const KeyParts own = split_key(own_key);
  const KeyParts other = split_key(other_key);
  if (own.launch.starts_with(k_by_hand) && own.launch != other.launch)
    return fmt::format("this side has {}, the peer {}", name_of_launch(own.launch),
                       name_of_launch(other.launch));
  if (own.launch != other.launch || !own.by_command || !other.by_command)
    return fmt::format("this is job {}, the peer belongs to {}", printable(own_key), printable(other_key));
  constexpr const char* k_together = "to train together nevertheless, add the same --rdzv-id on all hosts";
  if (own.command == other.command)
    return fmt::format("both run {}, but with other arguments or in another folder ({})",
                       printable(own.command, k_width), k_together);
  const auto [here, there] = show_both(own.command, other.command);
  return fmt::format("the commands differ: {} on this side, {} on the peer's ({})", here, there, k_together);
}

}  // namespace ddprun::rendezvous
