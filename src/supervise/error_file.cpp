#include "supervise/error_file.hpp"

#include <nlohmann/json.hpp>

#include "base/json_text.hpp"

namespace ddprun::supervise {

namespace {

using Json = nlohmann::json;

const Json* find(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

std::string text_of(const Json* value) {
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

}  // namespace

std::string parse_error_file(const std::string& text) {
  const Json json = read_json_text(text);
  const Json* message = find(json, "message");
  if (message == nullptr) return {};
  if (message->is_string()) return text_of(message);
  if (const Json* extra = find(*message, "extraInfo")) {
    if (std::string traceback = text_of(find(*extra, "py_callstack")); !traceback.empty()) return traceback;
  }
  return text_of(find(*message, "message"));
}

}  // namespace ddprun::supervise
