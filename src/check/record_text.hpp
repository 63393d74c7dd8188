// Records as JSON text and back.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.hpp"
#include "base/json_text.hpp"

namespace ddprun::check {

template <class Record>
std::string render_json_text(const Record& record) {
  return write_json_text(nlohmann::json(record));
}

// Throws Error.
template <class Record>
Record parse_json_text(const std::string& json) {
  try {
    return read_json_text(json).get<Record>();
  } catch (const nlohmann::json::exception& error) {
    throw Error(std::string("a result of the check cannot be read: ") + error.what());
  }
}

}  // namespace ddprun::check
