#include "os/capture/profile_workers.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <vector>

#include "os/capture/socket_question.hpp"
#include "profile/rank_profile.hpp"

namespace ddprun::os {

namespace {

constexpr Milliseconds k_profile_limit{2000};  // below k_profile_grace

std::string why_unseen(const std::string& door, const SocketQuestion& question) {
  if (door.empty()) return "not inspected";
  if (question.answer().value_or("").starts_with("HTTP/1.1 503"))
    return "another profile of it is being taken";
  if (question.answer().value_or("").starts_with("HTTP/1.1 404")) return "its torch cannot be asked";
  if (::access((door + ".ending").c_str(), F_OK) == 0) return "its script has ended";
  if (::access((door + ".socket").c_str(), F_OK) != 0) return "it has not imported torch";
  return "the interpreter does not answer";
}

std::string profile_workers(const status::NodeStatus& node, const InspectionDoors& doors,
                            Milliseconds duration, int limit) {
  const std::string handler =
      fmt::format("ddprun?seconds={}&rate={}&limit={}", static_cast<double>(duration.count()) / 1000,
                  profile::k_rate, limit);
  std::vector<SocketQuestion> questions;
  std::vector<SocketQuestion*> asked;
  for (std::size_t i = 0; i < node.workers.size(); ++i) {
    const bool runs = node.workers[i].pid != 0 && !doors.workers.at(i).empty();
    questions.push_back(post(runs ? doors.workers[i] + ".socket" : "", handler));
  }
  for (SocketQuestion& each : questions) asked.push_back(&each);
  ask_all(asked, duration + k_profile_limit);
  std::string lines;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const status::WorkerStatus& worker = node.workers[i];
    const auto body = body_of(questions[i]);
    const std::string unseen = body              ? ""
                               : worker.pid == 0 ? "it has ended"
                                                 : why_unseen(doors.workers[i], questions[i]);
    lines += profile::render_rank(worker.rank, node.host, worker.pid, unseen, body.value_or("")) + "\n";
  }
  return lines;
}

}  // namespace

AnsweringChild profile_workers_in_child(const status::NodeStatus& node, const InspectionDoors& doors,
                                        Milliseconds duration, int limit) {
  return AnsweringChild([=] { return profile_workers(node, doors, duration, limit); },
                        "take a profile of the workers");
}

}  // namespace ddprun::os
