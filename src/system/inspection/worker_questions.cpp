#include "inspection/worker_questions.hpp"

#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "inspection/socket_question.hpp"
#include "profile/rank_profile.hpp"
#include "slow/collectives.hpp"

namespace ddprun::inspection {

namespace {

constexpr Milliseconds k_profile_limit{2000};  // below k_profile_grace
constexpr Milliseconds k_trace_limit{1000};

bool has(const std::string& door, const char* end) {
  return !door.empty() && ::access((door + end).c_str(), F_OK) == 0;
}

// An empty door is not asked.
std::vector<SocketQuestion> ask(const std::vector<std::string>& doors, const std::string& handler,
                                Milliseconds limit) {
  std::vector<SocketQuestion> questions;
  for (const std::string& door : doors)
    questions.push_back(post(has(door, ".socket") ? door + ".socket" : "", handler));
  std::vector<SocketQuestion*> all;
  for (SocketQuestion& question : questions) all.push_back(&question);
  ask_all(all, limit);
  return questions;
}

std::string why_unseen(const status::WorkerStatus& worker, const std::string& door, std::string_view answer) {
  if (worker.pid == 0) return "it has ended";
  if (door.empty()) return "not inspected";
  if (answer.starts_with("HTTP/1.1 503")) return "another profile of it is being taken";
  if (answer.starts_with("HTTP/1.1 404")) return "its torch cannot be asked";
  if (has(door, ".ending")) return "its script has ended";
  return has(door, ".socket") ? "the interpreter does not answer" : "it has not imported torch";
}

std::string profile_workers(const status::NodeStatus& node, std::vector<std::string> doors,
                            Milliseconds duration, int limit) {
  for (std::size_t i = 0; i < doors.size(); ++i) {
    if (node.workers.at(i).pid == 0) doors[i].clear();
  }
  const auto questions =
      ask(doors,
          fmt::format("ddprun?seconds={}&rate={}&limit={}", static_cast<double>(duration.count()) / 1000,
                      profile::k_rate, limit),
          duration + k_profile_limit);
  std::string lines;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const status::WorkerStatus& worker = node.workers[i];
    const auto body = body_of(questions[i]);
    lines +=
        profile::render_rank(worker.rank, node.host, worker.pid,
                             body ? "" : why_unseen(worker, doors[i], questions[i].answer().value_or("")),
                             body.value_or("")) +
        "\n";
  }
  return lines;
}

std::string capture_traces(const std::vector<std::string>& doors, const std::vector<int>& ranks,
                           std::size_t most) {
  const auto questions = ask(doors, "fr_trace_json?includestacktraces=false", k_trace_limit);
  slow::NodeTrace node;
  for (std::size_t i = 0; i < questions.size() && i < ranks.size(); ++i) {
    if (const auto body = body_of(questions[i])) slow::add_flight_record(node, ranks[i], *body);
    if (node.ranks.size() == 1 && node.step == 0)
      node.step = static_cast<int>(slow::find_step(node).value_or(0));
    slow::shorten(node, most);
  }
  return slow::render_trace(node);
}

}  // namespace

os::AnsweringChild profile_workers_in_child(const status::NodeStatus& node,
                                            const std::vector<std::string>& doors, Milliseconds duration,
                                            int limit) {
  return os::AnsweringChild([=] { return profile_workers(node, doors, duration, limit); },
                            "take a profile of the workers");
}

bool has_collective_traces(const std::vector<std::string>& doors) {
  return std::ranges::any_of(doors, [](const std::string& door) { return has(door, ".socket"); });
}

os::AnsweringChild capture_traces_in_child(const std::vector<std::string>& doors,
                                           const std::vector<int>& ranks, std::size_t most) {
  return os::AnsweringChild([=] { return capture_traces(doors, ranks, most); },
                            "ask the workers for their collectives");
}

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
