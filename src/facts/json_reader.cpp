#include "json_reader.hpp"

#include <algorithm>

#include "ddprun/base/error.hpp"

namespace ddprun {

void JsonSource::refuse(const std::string& why) const {
  throw UsageError(fmt::format("cannot use {}: {}", name, why), hint);
}

Json parse_strictly(const std::string& json, const JsonSource& source) {
  static constexpr int k_deepest = 8;
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > k_deepest) source.refuse("it is nested too deeply");
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto& key = value.get_ref<const std::string&>();
      if (!keys.back().insert(key).second) source.refuse(printable(key) + " appears twice");
    }
    return true;
  };
  try {
    return Json::parse(json, check);
  } catch (const Json::parse_error& error) {
    const auto end = json.begin() + static_cast<std::ptrdiff_t>(std::min(error.byte, json.size()));
    source.refuse(fmt::format("line {} is not JSON", 1 + std::count(json.begin(), end, '\n')));
  } catch (const Json::exception&) {
    source.refuse("it holds a number that is too large");
  }
}

}  // namespace ddprun
