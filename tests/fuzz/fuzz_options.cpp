// The grammars of single options: any text is a value or a UsageError that can be shown, never anything else.
#include "base/duration.hpp"
#include "options/bind_choice.hpp"
#include "options/options.hpp"
#include "output/line_label.hpp"
#include "output/log_layout.hpp"
#include "output/output_options.hpp"
#include "placement/devices.hpp"
#include "promise.hpp"
#include "site/expand_value.hpp"

namespace {

using namespace ddprun;

// What is shown to the user is one printable line with a hint.
template <class Act>
void parse(const Act& act) {
  try {
    act();
  } catch (const UsageError& error) {
    const std::string what = error.what();
    fuzz::require(what.find("--x") != std::string::npos && !error.hint().empty());
    for (const std::string& text : {what, error.hint()}) {
      fuzz::require_printable(text);
      fuzz::require(text.find('\n') == std::string::npos);
    }
  }
}

void parse_values(const std::string& text) {
  parse([&] {
    const options::NodeRange range = options::parse_node_range(text, "--x");
    fuzz::require(1 <= range.least && range.least <= range.most);
  });
  parse([&] {
    const options::WorkersPerNode workers = options::parse_workers_per_node(text, "--x");
    fuzz::require(workers.kind != options::WorkersKind::number || workers.number >= 1);
  });
  parse([&] {
    for (const auto& [rank, streams] : output::parse_stream_choice(text, "--x").by_local_rank) {
      fuzz::require(rank >= 0 && streams >= 0 && streams <= 3);
    }
  });
  parse([&] { fuzz::require(!output::parse_rank_list(text, "--x").empty()); });
  parse([&] {
    for (const auto& [key, value] : options::parse_rendezvous_conf(text, "--x"))
      fuzz::require(!key.empty() && !value.empty());
  });
}

void parse_output(const std::string& text) {
  parse([&] { output::parse_rank_ranges(text, "--x"); });
  parse([&] { output::parse_rotation(text, "--x"); });
  parse([&] { output::parse_memory(text, "--x"); });
  parse([&] { output::parse_rate(text, "--x"); });
  parse([&] { output::make_label(text, {}, true, "--x"); });
  output::make_torchrun_prefix(text, {});
  output::parse_line_filters(text);
}

void parse_places(const std::string& text) {
  parse([&] { options::parse_bind(text, "--x"); });
  placement::parse_device_list(text);
  parse_duration(text);
  fuzz::try_to([&] { site::expand_value(text, {{"HOME", "/home/lab"}}); });
}

void parse_names(const std::string& text) {
  parse([&] {
    const options::Endpoint endpoint = options::parse_endpoint(text, "--x");
    fuzz::require(!endpoint.host.empty() && endpoint.port.value_or(0) >= 0 &&
                  endpoint.port.value_or(0) <= 65535);
    const bool ipv6 = endpoint.host.find(':') != std::string::npos;
    fuzz::require(!ipv6 || options::parse_endpoint("[" + endpoint.host + "]:1", "--x").host == endpoint.host);
  });
  parse([&] { fuzz::require(!options::parse_host(text, "--x").empty()); });
  parse([&] {
    for (const int number : options::parse_signals(text, "--x")) {
      fuzz::require(options::parse_signals(options::signal_name(number), "--x") == std::vector<int>{number});
    }
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  parse_values(text);
  parse_output(text);
  parse_places(text);
  parse_names(text);
  return 0;
}
