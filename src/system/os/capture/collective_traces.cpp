#include "os/capture/collective_traces.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "os/capture/socket_question.hpp"
#include "slow/step_period.hpp"
#include "slow/trace.hpp"

namespace ddprun::os {

namespace {

constexpr Milliseconds k_trace_limit{1000};

bool has_server(const std::string& door) {
  return !door.empty() && ::access((door + ".socket").c_str(), F_OK) == 0;
}

std::string ask(const std::vector<std::string>& doors, const std::vector<int>& ranks, std::size_t most) {
  std::vector<SocketQuestion> questions;
  for (const std::string& door : doors)
    questions.push_back(
        post(has_server(door) ? door + ".socket" : "", "fr_trace_json?includestacktraces=false"));
  std::vector<SocketQuestion*> all;
  for (SocketQuestion& question : questions) all.push_back(&question);
  ask_all(all, k_trace_limit);
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

bool has_collective_traces(const std::vector<std::string>& doors) {
  return std::ranges::any_of(doors, has_server);
}

AnsweringChild capture_traces_in_child(std::vector<std::string> doors, std::vector<int> ranks,
                                       std::size_t most) {
  return AnsweringChild(
      [doors = std::move(doors), ranks = std::move(ranks), most] { return ask(doors, ranks, most); },
      "ask the workers for their collectives");
}

}  // namespace ddprun::os
