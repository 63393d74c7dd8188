#include "agent/node_look.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "check/record_fields.hpp"
#include "console/log.hpp"
#include "os/files/slow_files.hpp"
#include "probes/node_record.hpp"

namespace ddprun::agent {

namespace {

constexpr Milliseconds k_patience{3000};  // for a folder that may hang
constexpr Milliseconds k_look_limit{5000};
constexpr std::size_t k_most = std::size_t{1} << 20;  // bytes of a record

std::vector<check::Finding> find_errors(const check::HostRecord& before, const check::HostRecord& now) {
  std::vector<check::Finding> findings;
  check::judge_surroundings(now, findings);
  check::judge_change(before, now, findings);  // before the GPUs: the kernel's log has the reason of a loss
  check::judge_gpus(now, findings);
  std::erase_if(findings, [](const check::Finding& each) { return each.mark != check::Mark::error; });
  // Errors of before the first attempt are known, and the job was started with them.
  std::vector<check::Finding> known;
  check::judge_surroundings(before, known);
  check::judge_gpus(before, known);
  std::erase_if(findings, [&](const check::Finding& each) {
    return std::ranges::any_of(known, [&](const check::Finding& other) {
      return other.mark == check::Mark::error && other.subject == each.subject &&
             (other.subject != "GPU" || other.what == each.what);
    });
  });
  return findings;
}

}  // namespace

void NodeLook::ask(std::unique_ptr<probes::ChildQuery>& query, const std::function<std::string()>& call,
                   Milliseconds limit, OnAnswer on_answer) {
  try {
    query = std::make_unique<probes::ChildQuery>(
        context_, os::AnsweringChild(call, "look at this node"), k_most, limit,
        [this, &query, on_answer = std::move(on_answer)](const std::string& answer, bool) {
          NodeLook& look = *this;  // end() destroys this function
          const OnAnswer then = on_answer;
          const std::string text = answer;
          look.end(query);
          then(text);
          look.settle();
        });
    workers_.spare(query->child());
  } catch (const Error& error) {
    console::say_detail(error.what());
  }
}

void NodeLook::end(std::unique_ptr<probes::ChildQuery>& query) {
  if (!query) return;
  workers_.spare_no_more(query->child());
  query.reset();
}

void NodeLook::begin(const rendezvous::Stop& stop, bool failed_here) {
  if (!stop.again || query_ || command_) return;
  finding_.reset();
  doubts_.clear();
  const plan::NodeProposal& node = *plans_.node;
  if (before_) look();
  if (!probes::has_own_check(node)) return;
  question_ = {failed_here ? supervise::CheckFor::failure : supervise::CheckFor::restart, stop.attempt,
               stop.failure};
  ask(
      command_, [this] { return probes::ask_own_check(*plans_.node, snapshot_, question_); },
      node.options.check.limit.value + probes::k_own_check_margin,
      [this](const std::string& answer) { note_verdict(probes::read_verdict(answer)); });
}

void NodeLook::look() {
  probes::CheckedNode checked;
  checked.workers = plans_.node->local_world_size;
  checked.log_folder = plans_.node->options.output.logs.value;
  checked.quick = true;
  checked.patience = k_patience;
  ask(
      query_,
      [checked, this] { return check::render_json_text(probes::make_node_record(checked, snapshot_)); },
      k_look_limit, [this](const std::string& answer) { note(answer); });
}

void NodeLook::note(const std::string& answer) {
  std::vector<check::Finding> errors;
  try {
    if (!answer.empty()) errors = find_errors(*before_, check::parse_json_text<check::HostRecord>(answer));
  } catch (const Error& error) {
    console::say_detail(error.what());
  }
  if (errors.empty()) return;
  if (doubts_.empty()) {
    doubts_ = std::move(errors);
    return look();
  }
  const auto again = std::ranges::find_if(errors, [this](const check::Finding& each) {
    return std::ranges::find(doubts_, each.subject, &check::Finding::subject) != doubts_.end();
  });
  if (again != errors.end()) note_finding(*again);
}

void NodeLook::note_verdict(const supervise::CommandVerdict& verdict) {
  const std::string& host = plans_.node->host;
  if (question_.why == supervise::CheckFor::failure) keep_output(verdict.output);
  if (verdict.fitness == supervise::Fitness::unknown && !std::exchange(warned_, true))
    console::say_notice(fmt::format("{} on {}, which is not judged by it", verdict.what, host),
                        supervise::k_broken_hint);
  if (verdict.fitness == supervise::Fitness::unfit)
    note_finding({check::Mark::error, "check", {host}, verdict.what, supervise::k_unfit_hint});
}

// Keeps what the command says of a failure beside the logs.
void NodeLook::keep_output(const std::string& output) const {
  const std::string& folder = plans_.node->options.output.logs.value;
  if (folder.empty() || output.empty()) return;
  const std::string path =
      fmt::format("{}/check.{}.attempt{}.txt", folder, plans_.node->host, question_.attempt.value);
  if (const std::string problem = os::replace_slow_file(path, output); !problem.empty())
    console::say_notice(fmt::format("cannot write {} on {}: {}", path, plans_.node->host, problem),
                        "name another folder with --logs");
}

void NodeLook::note_finding(const check::Finding& finding) {
  if (finding_) return;
  finding_ = finding;
  if (const auto problem = probes::exclude_node(*plans_.node))
    console::say_notice(problem->what, problem->hint);
}

void NodeLook::settle() {
  if (query_ || command_) return;
  if (const auto done = std::exchange(done_, nullptr)) done(std::exchange(finding_, std::nullopt));
}

void NodeLook::when_known(std::function<void(const std::optional<check::Finding>&)> done) {
  done_ = std::move(done);
  settle();
}

void NodeLook::end() {
  done_ = nullptr;
  finding_.reset();
  end(query_);
  end(command_);
}

}  // namespace ddprun::agent
