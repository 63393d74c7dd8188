// Records as JSON text and back.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.hpp"

namespace ddprun::check {

// A name that is no UTF-8 must not end the check.
template <class Record>
std::string render_json_text(const Record& record) {
  return nlohmann::json(record).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

template <class Record>
Record parse_json_text(const std::string& json) {
  try {
    return nlohmann::json::parse(json).get<Record>();
  } catch (const nlohmann::json::exception& error) {
    throw Error(std::string("a result of the check cannot be read: ") + error.what());
  }
}

}  // namespace ddprun::check
