#include "rendezvous/coordinator_address.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/json_fields.hpp"
#include "base/json_text.hpp"
#include "base/text.hpp"
#include "rendezvous/codec.hpp"
#include "rendezvous/missing_agents.hpp"

namespace ddprun::rendezvous {

namespace {

using Json = nlohmann::json;

constexpr int k_note_format = 1;
constexpr std::size_t k_max_address = 64;

bool is_place(const CoordinatorPlace& place) {
  return place.port >= 1 && place.port <= 65535 && !place.addresses.empty() &&
         place.addresses.size() <= k_max_place_addresses &&
         std::all_of(place.addresses.begin(), place.addresses.end(), is_address);
}

}  // namespace

bool is_address(std::string_view text) {
  return !text.empty() && text.size() <= k_max_address &&
         text.find_first_not_of("0123456789abcdefABCDEF.:") == std::string_view::npos;
}

std::string render_place(const CoordinatorPlace& place) {
  std::string text = std::to_string(place.port);
  const std::size_t count = std::min(place.addresses.size(), k_max_place_addresses);
  for (std::size_t i = 0; i < count; ++i) text += "," + place.addresses[i];
  return text;
}

std::optional<CoordinatorPlace> parse_place(std::string_view text) {
  std::vector<std::string> words = split(text, ',');
  const auto port = parse_integer(words.front());
  if (!port || *port < 1 || *port > 65535) return std::nullopt;
  words.erase(words.begin());
  CoordinatorPlace place{std::move(words), static_cast<int>(*port)};
  if (!is_place(place)) return std::nullopt;
  return place;
}

std::string render_note(const CoordinatorNote& note) {
  std::vector<std::string> addresses = note.place.addresses;
  addresses.resize(std::min(addresses.size(), k_max_place_addresses));
  const Json json{{"ddprun_meeting", k_note_format}, {"launch", note.launch},  {"host", note.host},
                  {"process", note.process},         {"addresses", addresses}, {"port", note.place.port}};
  return write_json_text(json, 2) + "\n";
}

std::variant<CoordinatorNote, std::string> parse_note(std::string_view text, const std::string& launch) {
  const Json json = read_json_text(text);
  if (json.is_discarded()) return std::string("it is not complete");
  constexpr int k_any = std::numeric_limits<int>::min();
  std::string problem;
  JsonFields fields(json, problem, k_max_text);
  int format = 0;
  CoordinatorNote note;
  fields.value("ddprun_meeting", format, k_any);
  fields.value("launch", note.launch);
  fields.value("host", note.host);
  fields.value("process", note.process);
  fields.value("addresses", note.place.addresses, k_max_place_addresses);
  fields.value("port", note.place.port, k_any);
  if (!problem.empty()) return fmt::format("it is malformed: {}", problem);
  if (format != k_note_format) return fmt::format("it has format {}, not {}", format, k_note_format);
  if (note.launch != launch) {
    return fmt::format("it belongs to another launch, {}", printable(note.launch));
  }
  if (!is_place(note.place)) return std::string("it is malformed: no numeric addresses and port");
  return note;
}

namespace {

bool contains(const std::vector<std::string>& list, const std::string& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

// Returns the candidates that the witness reaches; one that answered at the join needs no second proof.
std::vector<std::string> reached_by(const AddressWitness& witness,
                                    const std::vector<std::string>& candidates) {
  std::vector<std::string> reached;
  for (const std::string& address : candidates) {
    if (address == plain_address(witness.reached) || (witness.probed && contains(*witness.probed, address))) {
      reached.push_back(address);
    }
  }
  return reached;
}

}  // namespace

std::string plain_address(const std::string& address) {
  static const std::string k_mapped = "::ffff:";
  std::string plain = to_lower(address.substr(0, address.find('%')));
  if (plain.starts_with(k_mapped) && plain.find('.') != std::string::npos) plain.erase(0, k_mapped.size());
  return plain;
}

bool is_loopback_address(const std::string& address) {
  const std::string plain = plain_address(address);
  return plain.starts_with("127.") || plain == "::1";
}

bool crosses_hosts(const std::string& address) {
  const std::string plain = plain_address(address);
  const bool link_local = plain.size() > 4 && plain.starts_with("fe") && plain.find(':') == 4 &&
                          std::string_view("89ab").find(plain[2]) != std::string_view::npos;
  const bool numeric = plain.find_first_not_of("0123456789abcdef.:") == std::string::npos;
  return numeric && !plain.empty() && !is_loopback_address(plain) && plain != "::" && plain != "0.0.0.0" &&
         !link_local;
}

std::string interface_of(const std::vector<facts::InterfaceAddress>& own, const std::string& address) {
  const std::string plain = plain_address(address);
  const auto found = std::find_if(own.begin(), own.end(), [&](const facts::InterfaceAddress& each) {
    return !each.loopback && plain_address(each.address) == plain;
  });
  return found == own.end() ? std::string() : found->interface;
}

std::optional<std::string> agreed_address(const std::vector<AddressWitness>& witnesses,
                                          const std::vector<std::string>& own_addresses) {
  std::optional<std::string> agreed;
  for (const AddressWitness& witness : witnesses) {
    if (witness.beside_coordinator) continue;
    const std::string reached = plain_address(witness.reached);
    if (!crosses_hosts(reached) || (agreed && *agreed != reached)) return std::nullopt;
    agreed = reached;
  }
  if (agreed) return agreed;
  // All on one host: any own address will do.
  return own_addresses.empty() ? "127.0.0.1" : plain_address(own_addresses.front());
}

std::vector<std::string> addresses_to_probe(const std::vector<AddressWitness>& witnesses,
                                            const std::vector<std::string>& own_addresses) {
  std::vector<std::string> candidates;
  const auto add = [&candidates](const std::string& address) {
    const std::string plain = plain_address(address);
    if (crosses_hosts(plain) && !contains(candidates, plain) && candidates.size() < k_max_addresses) {
      candidates.push_back(plain);
    }
  };
  for (const std::string& address : own_addresses) add(address);
  for (const AddressWitness& witness : witnesses) add(witness.reached);
  return candidates;
}

std::optional<std::string> common_address(const std::vector<AddressWitness>& witnesses,
                                          const std::vector<std::string>& candidates) {
  std::map<std::string, std::size_t> count;
  std::size_t asked = 0;
  for (const AddressWitness& witness : witnesses) {
    if (witness.beside_coordinator) continue;
    ++asked;
    for (const std::string& address : reached_by(witness, candidates)) ++count[address];
  }
  const auto all_reach = [&](const std::string& address) { return count[address] == asked; };
  const auto found = std::find_if(candidates.begin(), candidates.end(), all_reach);
  return found == candidates.end() ? std::nullopt : std::optional(*found);
}

std::string describe_no_common_address(const std::string& coordinator,
                                       const std::vector<AddressWitness>& witnesses,
                                       const std::vector<std::string>& candidates) {
  if (candidates.empty()) {
    return fmt::format("{} has no address that other hosts can use, only loopback ones", coordinator);
  }
  std::map<std::string, std::vector<std::string>> hosts_by_reached;
  for (const AddressWitness& witness : witnesses) {
    if (witness.beside_coordinator) continue;
    const std::vector<std::string> reached = reached_by(witness, candidates);
    std::string what = !reached.empty() ? "reached " + join(reached, ", ")
                       : witness.probed ? "reached none"
                                        : "did not answer in time";
    if (!witness.failures.empty())
      what += fmt::format(" ({})", printable(join(witness.failures, "; "), k_max_text));
    hosts_by_reached[what].push_back(witness.host);
  }
  std::vector<std::string> parts;
  for (const auto& [reached, hosts] : hosts_by_reached) {
    parts.push_back(fmt::format("{} {}", describe_hosts(hosts), reached));
  }
  return fmt::format("no address of {} is reached by all nodes (tried {}): {}", coordinator,
                     join(candidates, ", "), join(parts, "; "));
}

}  // namespace ddprun::rendezvous
