#include "inspection/worker_modules.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "inspection/socket_question.hpp"

namespace ddprun::inspection {

namespace {

using Json = nlohmann::json;

constexpr Milliseconds k_limit{1000};

std::vector<std::string> names_in(const Json& names) {
  std::vector<std::string> found;
  if (!names.is_array()) return found;
  for (const Json& name : names) {
    if (name.is_string()) found.push_back(name.get<std::string>());
  }
  return found;
}

Json loaded_in(std::string_view body) {
  const Json told = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  return told.is_object() && told.contains("loaded") ? told["loaded"] : Json::array();
}

std::string ask(const std::vector<std::string>& doors) {
  std::vector<SocketQuestion> questions;
  for (const std::string& door : doors)
    questions.push_back(post(door.empty() ? "" : door + ".socket", "ddprun?modules=1"));
  std::vector<SocketQuestion*> all;
  for (SocketQuestion& question : questions) all.push_back(&question);
  ask_all(all, k_limit);
  Json modules = Json::array();
  for (const SocketQuestion& question : questions)
    modules.push_back(loaded_in(body_of(question).value_or("")));
  return modules.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

os::AnsweringChild capture_modules_in_child(std::vector<std::string> doors) {
  return os::AnsweringChild([doors = std::move(doors)] { return ask(doors); },
                            "ask the workers for their modules");
}

std::vector<std::vector<std::string>> parse_modules(std::string_view answer) {
  const Json told = Json::parse(answer, nullptr, /*allow_exceptions=*/false);
  std::vector<std::vector<std::string>> modules;
  if (!told.is_array()) return modules;
  for (const Json& names : told) modules.push_back(names_in(names));
  return modules;
}

}  // namespace ddprun::inspection
