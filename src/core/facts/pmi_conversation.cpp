#include "facts/pmi_conversation.hpp"

#include <fmt/format.h>

#include <array>
#include <set>
#include <vector>

#include "base/text.hpp"

namespace ddprun::facts {

namespace {

constexpr std::string_view k_key = "ddprun";
constexpr std::string_view k_mapping_key = "PMI_process_mapping";
constexpr int k_max_processes = 1 << 18;

constexpr std::string_view k_told = "told ";
constexpr std::string_view k_uneven = "uneven";
constexpr std::string_view k_failed = "failed ";

std::string value_of(const PmiLine& line, const std::string& key) {
  const auto found = line.find(key);
  return found == line.end() ? std::string() : found->second;
}

struct Block {
  int first = 0;
  int nodes = 0;
  int per_node = 0;
};

std::optional<Block> parse_block(std::string_view text) {
  const std::vector<std::string> numbers = split(text, ',');
  if (numbers.size() != 3) return std::nullopt;
  std::array<int, 3> parsed{};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto number = parse_integer(numbers[i]);
    if (!number || *number < (i == 0 ? 0 : 1) || *number > k_max_processes) return std::nullopt;
    parsed[i] = static_cast<int>(*number);
  }
  return Block{parsed[0], parsed[1], parsed[2]};
}

// Parses "(0,2,1),(2,1,4)".
std::vector<Block> parse_blocks(std::string_view text) {
  std::vector<Block> blocks;
  while (text.starts_with('(')) {
    const std::size_t end = text.find(')');
    if (end == std::string_view::npos) return {};
    const auto block = parse_block(text.substr(1, end - 1));
    if (!block) return {};
    blocks.push_back(*block);
    text.remove_prefix(end + 1);
    if (text.empty()) return blocks;
    if (!text.starts_with(',')) return {};
    text.remove_prefix(1);
  }
  return {};
}

}  // namespace

std::optional<PmiLine> parse_pmi_line(std::string_view line) {
  PmiLine parsed;
  for (const std::string& word : split_words(line)) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) return std::nullopt;
    parsed[word.substr(0, equals)] = word.substr(equals + 1);
  }
  if (!parsed.contains("cmd")) return std::nullopt;
  return parsed;
}

std::optional<bool> shares_a_node(std::string_view mapping, int size) {
  constexpr std::string_view k_begin = "(vector,";
  if (!mapping.starts_with(k_begin) || !mapping.ends_with(')')) return std::nullopt;
  mapping.remove_prefix(k_begin.size());
  mapping.remove_suffix(1);
  const std::vector<Block> blocks = parse_blocks(mapping);
  if (blocks.empty() || size < 1 || size > k_max_processes) return std::nullopt;
  std::set<int> seen;
  while (true) {
    for (const Block& block : blocks) {
      for (int node = block.first; node < block.first + block.nodes; ++node) {
        for (int process = 0; process < block.per_node; ++process) {
          if (!seen.insert(node).second) return true;
          if (static_cast<int>(seen.size()) == size) return false;
        }
      }
    }
  }
}

std::string render_answer(const KeyValueAnswer& answer) {
  if (answer.kind == KeyValueAnswer::Kind::told) return std::string(k_told) + answer.text;
  if (answer.kind == KeyValueAnswer::Kind::uneven) return std::string(k_uneven);
  return std::string(k_failed) + answer.text;
}

KeyValueAnswer parse_answer(std::string_view line) {
  using Kind = KeyValueAnswer::Kind;
  if (line.starts_with(k_told)) return {Kind::told, std::string(line.substr(k_told.size()))};
  if (line == k_uneven) return {Kind::uneven, {}};
  if (line.starts_with(k_failed)) return {Kind::failed, std::string(line.substr(k_failed.size()))};
  return {Kind::failed, "it ended without an answer"};
}

std::string PmiConversation::start() { return ask(request_.id.empty() ? Stage::init : Stage::greeting); }

std::string PmiConversation::ask(Stage stage) {
  stage_ = stage;
  switch (stage) {
    case Stage::greeting:
      return fmt::format("cmd=initack pmiid={}\n", request_.id);
    case Stage::init:
      return "cmd=init pmi_version=1 pmi_subversion=1\n";
    case Stage::maxes:
      return "cmd=get_maxes\n";
    case Stage::name:
      return "cmd=get_my_kvsname\n";
    case Stage::mapping:
      return fmt::format("cmd=get kvsname={} key={}\n", space_, k_mapping_key);
    case Stage::put:
      return fmt::format("cmd=put kvsname={} key={} value={}\n", space_, k_key, *request_.value);
    case Stage::barrier:
      return "cmd=barrier_in\n";
    case Stage::get:
      return fmt::format("cmd=get kvsname={} key={}\n", space_, k_key);
  }
  return {};
}

std::string PmiConversation::asked() const {
  constexpr std::array<std::string_view, 8> k_names{"initack", "init", "get_maxes",  "get_my_kvsname",
                                                    "get",     "put",  "barrier_in", "get"};
  return std::string(k_names[static_cast<std::size_t>(stage_)]);
}

std::string PmiConversation::take(std::string_view text) {
  if (over()) return {};
  const auto line = parse_pmi_line(text);
  if (!line) return fail(fmt::format("it answered {} with '{}'", asked(), printable(text, 80)));
  // After the greeting size, rank and "debug" come unasked, each in a line of its own.
  if (stage_ == Stage::greeting && value_of(*line, "cmd") == "set") {
    return value_of(*line, "debug").empty() ? std::string() : ask(Stage::init);
  }
  constexpr std::array<std::string_view, 8> k_answers{"initack",     "response_to_init", "maxes",
                                                      "my_kvsname",  "get_result",       "put_result",
                                                      "barrier_out", "get_result"};
  const bool expected = value_of(*line, "cmd") == k_answers[static_cast<std::size_t>(stage_)];
  const std::string result = value_of(*line, "rc");
  if (!expected || (!result.empty() && result != "0")) {
    return fail(fmt::format("it answered {} with '{}'", asked(), printable(text, 80)));
  }
  return after(*line);
}

std::string PmiConversation::after(const PmiLine& line) {
  switch (stage_) {
    case Stage::greeting:
      return {};
    case Stage::init:
      if (value_of(line, "pmi_version") != "1") return fail("it does not support PMI version 1");
      return ask(Stage::maxes);
    case Stage::maxes:
      return take_maxes(line);
    case Stage::name:
      space_ = value_of(line, "kvsname");
      if (space_.empty()) return fail("it does not name its key-value space");
      if (!request_.all_take_part) return ask(Stage::mapping);
      return ask(request_.value ? Stage::put : Stage::barrier);
    case Stage::mapping:
      return take_mapping(line);
    case Stage::put:
      return ask(Stage::barrier);
    case Stage::barrier:
      if (request_.value) return end(KeyValueAnswer::Kind::told, *request_.value);
      return ask(Stage::get);
    case Stage::get:
      return end(KeyValueAnswer::Kind::told, value_of(line, "value"));
  }
  return {};
}

std::string PmiConversation::take_maxes(const PmiLine& line) {
  const auto most = parse_integer(value_of(line, "vallen_max"));
  if (!most) return fail("it does not give the maximum length of a value");
  // The limit counts the zero byte of C.
  if (request_.value && static_cast<std::int64_t>(request_.value->size()) >= *most) {
    return fail(fmt::format("it accepts values below {} bytes, and the addresses of this host need {}", *most,
                            request_.value->size()));
  }
  return ask(Stage::name);
}

std::string PmiConversation::take_mapping(const PmiLine& line) {
  const std::string mapping = value_of(line, "value");
  const auto shared = shares_a_node(mapping, request_.size);
  if (!shared) return fail(fmt::format("its {} is malformed: '{}'", k_mapping_key, printable(mapping, 80)));
  if (*shared) return end(KeyValueAnswer::Kind::uneven, {});
  return ask(request_.value ? Stage::put : Stage::barrier);
}

std::string PmiConversation::end(KeyValueAnswer::Kind kind, std::string text) {
  answer_ = {kind, std::move(text)};
  return {};
}

}  // namespace ddprun::facts
