#include "status/flight_record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/json_text.hpp"
#include "base/text.hpp"
#include "status/json_values.hpp"

namespace ddprun::status {

namespace {

using Json = nlohmann::json;

constexpr std::size_t k_most_shapes = 4;

bool is_completed(const Json& entry) {
  return flag_in(entry, "retired") || text_in(entry, "state") == "completed";
}

std::string shape_of(const Json& sizes) {
  std::vector<std::string> lengths;
  for (const Json& length : sizes) {
    if (length.is_number_integer()) lengths.push_back(fmt::format("{}", length.get<std::int64_t>()));
  }
  return lengths.empty() ? "scalar" : join(lengths, "x");
}

// Returns "1000 float, 4x4 half".
std::string describe_sizes(const Json& entry) {
  const auto sizes = entry.find("input_sizes");
  const auto types = entry.find("input_dtypes");
  if (sizes == entry.end() || !sizes->is_array()) return {};
  std::vector<std::string> shapes;
  for (std::size_t i = 0; i < sizes->size(); ++i) {
    if (i == k_most_shapes) {
      shapes.emplace_back("...");
      break;
    }
    if (!(*sizes)[i].is_array()) continue;
    const bool typed =
        types != entry.end() && types->is_array() && i < types->size() && (*types)[i].is_string();
    shapes.push_back(shape_of((*sizes)[i]) + (typed ? " " + to_lower((*types)[i].get<std::string>()) : ""));
  }
  return join(shapes, ", ").substr(0, k_most_text);
}

std::string group_of(const Json& entry) {
  const Json& group = list_in(entry, "process_group");
  if (group.size() != 2) return {};
  const auto text = [](const Json& part) { return part.is_string() ? part.get<std::string>() : ""; };
  return name_of_group(text(group[0]), text(group[1]));
}

}  // namespace

std::string operation_in(const Json& entry) {
  const std::string name = text_in(entry, "profiling_name");
  return name.substr(name.find(':') + 1);
}

std::string process_group_in(const Json& entry) {
  const Json& group = list_in(entry, "process_group");
  return !group.empty() && group[0].is_string() ? group[0].get<std::string>().substr(0, k_most_text) : "";
}

Collective read_collective(const Json& entry, std::int64_t now) {
  Collective collective;
  collective.operation = operation_in(entry);
  collective.group = group_of(entry);
  collective.sequence = number_in(entry, flag_in(entry, "is_p2p") ? "p2p_seq_id" : "collective_seq_id");
  collective.sizes = describe_sizes(entry);
  collective.pending = !is_completed(entry);
  const std::int64_t created = number_in(entry, "time_created_ns");
  collective.age = Milliseconds{created > 0 && created < now ? (now - created) / 1'000'000 : 0};
  return collective;
}

std::string name_of_group(const std::string& name, const std::string& description) {
  return description.empty() || description == "undefined" ? name : description;
}

Json read_flight_record(std::string_view text) {
  Json json = is_pickle(text) ? read_pickle(text) : read_json_text(text);
  const auto is_object = [](const Json& entry) { return entry.is_object(); };
  const bool good = json.is_object() && json.contains("entries") && json["entries"].is_array() &&
                    std::ranges::all_of(json["entries"], is_object);
  if (!good) json = Json(Json::value_t::discarded);
  return json;
}

std::vector<const Json*> entries_in(const Json& record) {
  std::vector<const Json*> entries;
  for (const Json& entry : list_in(record, "entries")) entries.push_back(&entry);
  std::ranges::stable_sort(entries, {}, [](const Json* entry) { return number_in(*entry, "record_id"); });
  return entries;
}

std::optional<Collective> parse_flight_record(std::string_view text, std::int64_t unix_nanoseconds) {
  const Json json = read_flight_record(text);
  const auto entries = entries_in(json);
  if (entries.empty()) return std::nullopt;
  const auto pending =
      std::ranges::find_if_not(entries, [](const Json* each) { return is_completed(*each); });
  return read_collective(pending == entries.end() ? *entries.back() : **pending, unix_nanoseconds);
}

namespace {

using Json = nlohmann::json;

constexpr std::size_t k_text_of_a_value = 32;  // bytes that count as one
constexpr std::size_t k_deepest_pickle = 32, k_most_pickled = 4'000'000;

// Counts the values that a copy makes.
std::size_t count_values(const Json& value) {
  if (value.is_string()) return 1 + value.get_ref<const std::string&>().size() / k_text_of_a_value;
  std::size_t count = 1;
  if (value.is_structured()) {
    for (const Json& each : value) count += count_values(each);
  }
  return count;
}

// Lists and dictionaries are filled with what is above a mark, so that they nest no deeper than there are
// marks.
class PickleReader {
 public:
  explicit PickleReader(std::string_view text) : text_(text) {}

  Json read() {
    while (good_ && !done_) act(number<char>());
    const bool whole = good_ && marks_.empty() && stack_.size() == 1;
    return whole ? std::move(stack_.back()) : Json(Json::value_t::discarded);
  }

 private:
  std::string_view bytes(std::size_t count) {
    good_ = good_ && count <= text_.size() - at_;
    return good_ ? text_.substr(std::exchange(at_, at_ + count), count) : std::string_view();
  }
  // Numbers are in the order of little-endian machines; a shorter one is negative by its highest bit.
  template <class Number>
  Number number(std::size_t size = sizeof(Number)) {
    const std::string_view from = bytes(size);
    good_ = good_ && size <= sizeof(Number);
    const bool negative = good_ && size > 0 && (from.back() & 0x80) != 0;
    auto value = static_cast<Number>(negative ? -1 : 0);
    if (good_) std::memcpy(&value, from.data(), size);
    return value;
  }
  double real_number() {  // its bytes are in the other order
    std::string from(bytes(sizeof(double)));
    std::ranges::reverse(from);
    double value = 0;
    if (good_) std::memcpy(&value, from.data(), sizeof value);
    return value;
  }

  void act(char code) {
    if (code == '\x80') return void(bytes(1));  // the protocol
    if (code == '.') return void(done_ = true);
    if (code == '(') return marks_.push_back(stack_.size()), void(good_ = marks_.size() <= k_deepest_pickle);
    if (code == '\x86') return push_pair();
    if (code == 'e' || code == 'u') return fill(code == 'u');
    if (code == 'q' || code == 'r')
      return note(code == 'q' ? number<std::uint8_t>() : number<std::uint32_t>());
    if (code == 'h' || code == 'j')
      return repeat(code == 'h' ? number<std::uint8_t>() : number<std::uint32_t>());
    if (code == '}') return push(Json::object());
    if (code == ']') return push(Json::array());
    if (code == 'N') return push(nullptr);
    if (code == '\x88' || code == '\x89') return push(code == '\x88');
    if (code == 'K') return push(number<std::uint8_t>());
    if (code == 'M') return push(number<std::uint16_t>());
    if (code == 'J') return push(number<std::int32_t>());
    if (code == '\x8a') return push(number<std::int64_t>(number<std::uint8_t>()));
    if (code == 'G') return push(real_number());
    if (code == 'X') return push(std::string(bytes(number<std::uint32_t>())));
    good_ = false;
  }

  void push(Json value) {
    spend(value);
    stack_.push_back(std::move(value));
  }
  void spend(const Json& value) { good_ = good_ && (made_ += count_values(value)) <= k_most_pickled; }
  // Reports whether there are so many values above the last mark.
  bool has(std::size_t count) const {
    return good_ && stack_.size() >= count + (marks_.empty() ? 0 : marks_.back());
  }

  void push_pair() {
    good_ = has(2) && stack_.back().is_primitive() && stack_[stack_.size() - 2].is_primitive();
    if (!good_) return;
    Json pair = Json::array({std::move(stack_[stack_.size() - 2]), std::move(stack_.back())});
    stack_.resize(stack_.size() - 2);
    push(std::move(pair));
  }

  // Moves what is above the last mark into the list or dictionary below it.
  void fill(bool object) {
    const std::size_t mark = marks_.empty() ? 0 : marks_.back();
    if (!marks_.empty()) marks_.pop_back();
    good_ = mark > 0 && has(stack_.size() - mark + 1) &&
            (object ? stack_[mark - 1].is_object() : stack_[mark - 1].is_array()) &&
            (!object || (stack_.size() - mark) % 2 == 0);
    for (std::size_t i = mark; good_ && i < stack_.size(); i += object ? 2 : 1) {
      if (!object) stack_[mark - 1].push_back(std::move(stack_[i]));
      good_ = !object || stack_[i].is_string();
      if (object && good_) stack_[mark - 1][stack_[i].get<std::string>()] = std::move(stack_[i + 1]);
    }
    stack_.resize(mark);
  }

  void note(std::size_t name) {
    good_ = has(1);
    if (good_) spend(stack_.back());
    if (good_) memo_[name] = stack_.back();
  }
  void repeat(std::size_t name) {
    const auto found = memo_.find(name);
    good_ = good_ && found != memo_.end();
    if (good_) spend(found->second);
    if (good_) stack_.push_back(found->second);
  }

  std::string_view text_;
  std::size_t at_ = 0, made_ = 0;
  bool good_ = true, done_ = false;
  std::vector<Json> stack_;
  std::vector<std::size_t> marks_;  // heights of the stack
  std::map<std::size_t, Json> memo_;
};

}  // namespace

bool is_pickle(std::string_view text) { return text.size() > 2 && text[0] == '\x80' && text[1] >= 2; }

Json read_pickle(std::string_view text) {
  return is_pickle(text) ? PickleReader(text).read() : Json(Json::value_t::discarded);
}

namespace {

using Json = nlohmann::json;

// Sends and receives are left out, where they are counted: they differ from rank to rank by nature.
std::uint64_t sum_of_counts(const Json& rank) {
  const auto counts = rank.find("collective_counts");
  if (counts == rank.end() || !counts->is_object()) return 0;
  std::uint64_t sum = 0;
  for (const auto& [operation, count] : counts->items()) {
    const bool between_two = operation.starts_with("Send") || operation.starts_with("Recv");
    if (!between_two) sum += whole_number<std::uint64_t>(count).value_or(0);
  }
  return sum;
}

using Process = std::pair<std::string, int>;  // address of its host, and process id

void add_communicator(std::map<Process, NcclCounts>& found, const Json& communicator) {
  std::map<Process, std::uint64_t> here;
  std::uint64_t most = 0;
  for (const Json& rank : list_in(communicator, "ranks")) {
    const int pid = rank.is_object() ? number_in<int>(rank, "pid") : 0;
    if (pid == 0) continue;
    const std::uint64_t started = here[{text_in(rank, "host"), pid}] = sum_of_counts(rank);
    most = std::max(most, started);
  }
  for (const auto& [process, started] : here) {
    NcclCounts& counts = found[process];
    counts.started += started;
    counts.behind = std::max(counts.behind, most - started);
  }
}

}  // namespace

std::vector<RasProcess> parse_ras_answer(std::string_view answer) {
  const std::size_t begin = answer.find("\n{");
  if (!answer.starts_with("SERVER PROTOCOL ") || begin == std::string_view::npos) return {};
  const Json json = read_json_text(answer.substr(begin + 1));
  std::map<Process, NcclCounts> found;
  for (const Json& communicator : list_in(json, "communicators")) add_communicator(found, communicator);
  std::vector<RasProcess> processes;
  for (const auto& [process, counts] : found) processes.push_back({process.first, process.second, counts});
  return processes;
}

}  // namespace ddprun::status
