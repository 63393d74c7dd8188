#include "rendezvous/coordinator_place.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/json_fields.hpp"
#include "base/json_text.hpp"
#include "base/text.hpp"
#include "rendezvous/codec.hpp"

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

}  // namespace ddprun::rendezvous
