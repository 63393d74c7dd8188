#include "base/json_text.hpp"

#include <nlohmann/json.hpp>

namespace ddprun {

namespace {

template <class Json>
Json read(std::string_view text) {
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

template <class Json>
std::string write(const Json& json, int indent) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace

nlohmann::json read_json_text(std::string_view text) { return read<nlohmann::json>(text); }
nlohmann::ordered_json read_ordered_json_text(std::string_view text) {
  return read<nlohmann::ordered_json>(text);
}

std::string write_json_text(const nlohmann::json& json, int indent) { return write(json, indent); }
std::string write_json_text(const nlohmann::ordered_json& json, int indent) { return write(json, indent); }

}  // namespace ddprun
