// The grammars of single options: any text is a value or a UsageError that can be shown, never anything else.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "ddprun/base/error.hpp"
#include "ddprun/output/stream_choice.hpp"
#include "ddprun/plan/options.hpp"

namespace {

using namespace ddprun;

void expect(bool holds) {
  if (!holds) std::abort();
}

// What is shown to the user is one printable line with a hint.
template <class Act>
void parse(const Act& act) {
  try {
    act();
  } catch (const UsageError& error) {
    const std::string what = error.what();
    expect(what.starts_with("--x ") && !error.hint().empty());
    expect(what.find_first_of("\n\r\x1b") == std::string::npos);
    expect(error.hint().find_first_of("\n\r\x1b") == std::string::npos);
  }
}

void parse_values(const std::string& text) {
  parse([&] {
    const NodeRange range = parse_node_range(text, "--x");
    expect(1 <= range.least && range.least <= range.most);
  });
  parse([&] {
    const WorkersPerNode workers = parse_workers_per_node(text, "--x");
    expect(workers.kind != WorkersKind::number || workers.number >= 1);
  });
  parse([&] {
    for (const auto& [rank, streams] : parse_stream_choice(text, "--x").by_local_rank) {
      expect(rank >= 0 && streams >= 0 && streams <= 3);
    }
  });
  parse([&] { expect(!parse_rank_list(text, "--x").empty()); });
  parse([&] {
    for (const auto& [key, value] : parse_rendezvous_conf(text, "--x"))
      expect(!key.empty() && !value.empty());
  });
}

void parse_names(const std::string& text) {
  parse([&] {
    const Endpoint endpoint = parse_endpoint(text, "--x");
    expect(!endpoint.host.empty() && endpoint.port.value_or(0) >= 0 && endpoint.port.value_or(0) <= 65535);
    const bool ipv6 = endpoint.host.find(':') != std::string::npos;
    expect(!ipv6 || parse_endpoint("[" + endpoint.host + "]:1", "--x").host == endpoint.host);
  });
  parse([&] { expect(!parse_host(text, "--x").empty()); });
  parse([&] {
    for (const int number : parse_signals(text, "--x")) {
      expect(parse_signals(signal_name(number), "--x") == std::vector<int>{number});
    }
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  parse_values(text);
  parse_names(text);
  return 0;
}
