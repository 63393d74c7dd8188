#include "profiling/profile_service.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "console/console.hpp"
#include "inspection/worker_questions.hpp"
#include "net/timers.hpp"
#include "os/atomic_file.hpp"
#include "os/clock.hpp"
#include "os/descriptors.hpp"
#include "os/process/reaper.hpp"
#include "os/status_socket.hpp"
#include "profile/rank_profile.hpp"
#include "rendezvous/codec.hpp"

namespace ddprun::profiling {

namespace {

using rendezvous::ProfilePart;
using rendezvous::ProfileRequest;

constexpr int k_alone = -1;                                        // asker of a profile of this host alone
constexpr Milliseconds k_parts_limit{5000}, k_client_limit{8000};  // beyond the duration
constexpr std::size_t k_most_asked = 16;
// Limits of --profile-every. In a file for speedscope an answer becomes several times as large.
constexpr Milliseconds k_longest_own{10'000}, k_write_limit{60'000};
constexpr int k_kept = 10, k_smaller = 6;
constexpr std::size_t k_largest = std::size_t{256} << 20, k_most_problem = 8192;

// Returns the file that cannot be written, and why; empty: none, or no rank has given a profile.
std::string ask_and_write(const std::string& socket, const ProfileRequest& request, const std::string& path) {
  const std::string frame = rendezvous::encode(rendezvous::AgentMessage(request));
  const auto answers = os::ask_status_sockets({socket}, request.duration + k_client_limit,
                                              frame.substr(rendezvous::k_frame_header));
  const profile::JobProfile job = profile::parse_job(join(answers.texts, ""));
  if (std::ranges::all_of(job.ranks, [](const auto& rank) { return rank.threads.empty(); })) return {};
  std::error_code ignored;  // replace_file() says it
  std::filesystem::create_directory(std::filesystem::path(path).parent_path(), ignored);
  for (const auto& [ending, text] : {std::pair(".speedscope.json", profile::render_speedscope(job, path)),
                                     std::pair(".collapsed", profile::render_collapsed(job))}) {
    const std::string why =
        text.size() > k_largest ? "it is too large" : os::replace_file(path + ending, text);
    if (!why.empty()) return path + ending + ": " + why;
  }
  return {};
}

}  // namespace

void ProfileService::serve() {
  const std::string name = os::status_socket_name(::getpid(), os::Asks::profile);
  net::StatusServer::Hooks hooks;
  hooks.may_ask = os::is_of_this_user;
  hooks.limit = rendezvous::k_longest_profile + k_client_limit;
  hooks.requested = [this](int, const std::string& text, Answer answer) { pass_on(text, std::move(answer)); };
  // Anybody may have taken the first; the second cannot be foreseen.
  server_.emplace(context_, std::vector{name, name + "/" + os::make_random_id()}, std::move(hooks));
}

void ProfileService::pass_on(const std::string& text, Answer answer) {
  auto decoded = rendezvous::decode_agent_message(text);
  auto* const message = std::get_if<rendezvous::AgentMessage>(&decoded);
  auto* const request = message ? std::get_if<ProfileRequest>(message) : nullptr;
  if (request == nullptr || asked_.size() >= k_most_asked) return answer({});
  request->number = ++last_;
  Asked& asked = *(asked_[last_] = std::make_unique<Asked>(context_, std::move(answer)));
  net::call_after(asked.limit, request->duration + k_parts_limit, [this, number = last_] { finish(number); });
  if (ask_(*request)) return;
  asked.agents = 1;
  request->asker = k_alone;
  take(*request);
}

void ProfileService::repeat(Milliseconds every) {
  net::call_after(timer_, os::until_multiple(every), [this, every] {
    repeat(every);
    profile_all(every);
  });
}

void ProfileService::profile_all(Milliseconds every) {
  const status::NodeStatus node = workers_.status();
  if (own_ || node.workers.empty() || node.workers.front().rank != 0) return;
  const ProfileRequest request{0, 0, std::min(every / 10, k_longest_own),
                               profile::answer_limit(workers_.world_size() * k_smaller)};
  const std::string path = fmt::format("{}/{}", workers_.outputs().logs().profile_folder(),
                                       os::unix_milliseconds() / every.count() % k_kept);
  try {
    own_ = std::make_unique<probes::ChildQuery>(
        context_,
        os::AnsweringChild([&] { return ask_and_write(server_->name(), request, path); }, "write a profile"),
        k_most_problem, request.duration + k_client_limit + k_write_limit,
        [this, path](const std::string& problem, bool late) {
          const auto ended = std::move(own_);
          if ((!late && problem.empty()) || std::exchange(told_unwritten_, true)) return;
          const std::string why = late ? path + ": its file system does not answer" : problem;
          console::say_notice(
              fmt::format("cannot write all profiles: {}; the job continues", printable(why, 400)), {});
        });
  } catch (const Error& error) {
    console::say_detail(error.what());
  }
}

// Profiles once at a time: each sample costs the workers some time.
void ProfileService::take(const ProfileRequest& request) {
  const status::NodeStatus node = workers_.status();
  const auto tell = [this, request, node](const std::string& lines, const std::string& why_none) {
    const auto send = [&](bool last, const std::string& line) {
      const ProfilePart part{request.number, request.asker, 0, last, line};
      part.asker == k_alone ? note(part) : void(ask_(part));
    };
    for (const std::string& line : split(lines, '\n')) {
      if (!line.empty()) send(false, line);
    }
    for (const status::WorkerStatus& worker : node.workers) {
      if (lines.empty()) send(false, profile::render_rank(worker.rank, node.host, worker.pid, why_none, {}));
    }
    send(true, profile::render_answered(node.host));
  };
  if (node.workers.empty() || query_) return tell({}, "another profile of it is being taken");
  try {
    query_ = std::make_unique<probes::ChildQuery>(
        context_,
        inspection::profile_workers_in_child(node, workers_.places().doors.workers, request.duration,
                                             request.limit),
        node.workers.size() * rendezvous::k_max_profile_part, request.duration + inspection::k_profile_grace,
        [this, tell](const std::string& lines, bool) {
          const auto ended = std::move(query_);
          tell(lines, "its agent has taken none");
        });
  } catch (const Error& error) {
    tell({}, error.what());
  }
}

void ProfileService::note(const ProfilePart& part) {
  const auto found = asked_.find(part.number);
  if (found == asked_.end()) return;
  Asked& asked = *found->second;
  if (!part.line.empty()) asked.lines += part.line + "\n";
  asked.agents = std::max(asked.agents, part.agents);
  if (part.last) ++asked.ended;
  if (asked.ended >= asked.agents) finish(part.number);
}

void ProfileService::finish(int number) {
  const auto asked = asked_.extract(number);
  if (!asked.empty()) asked.mapped()->answer(asked.mapped()->lines);
}

void ProfileService::end() {
  server_.reset();
  timer_.cancel();
  own_.reset();
  query_.reset();
  asked_.clear();
}

}  // namespace ddprun::profiling
