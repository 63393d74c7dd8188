#include "agent/node_look.hpp"

#include <algorithm>
#include <utility>

#include "check/record_fields.hpp"
#include "console/log.hpp"
#include "probes/node_record.hpp"

namespace ddprun::agent {

namespace {

constexpr Milliseconds k_patience{3000};  // for a folder that may hang
constexpr Milliseconds k_limit{5000};
constexpr std::size_t k_most = std::size_t{1} << 20;  // bytes of a record

std::vector<check::Finding> find_errors(const check::HostRecord& before, const check::HostRecord& now) {
  std::vector<check::Finding> findings;
  check::judge_surroundings(now, findings);
  check::judge_gpus(now, findings);
  check::judge_change(before, now, findings);
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

void NodeLook::begin() {
  if (!before_ || query_) return;
  finding_.reset();
  doubts_.clear();
  look();
}

void NodeLook::look() {
  probes::CheckedNode checked;
  checked.workers = plans_.node->local_world_size;
  checked.log_folder = plans_.node->options.output.logs.value;
  checked.quick = true;
  checked.patience = k_patience;
  try {
    query_ = std::make_unique<probes::ChildQuery>(
        context_,
        os::AnsweringChild(
            [checked, this] { return check::render_json_text(probes::make_node_record(checked, snapshot_)); },
            "look at this node"),
        k_most, k_limit, [this](const std::string& answer, bool) { note(answer); });
    workers_.spare(query_->child());
  } catch (const Error& error) {
    console::say_detail(error.what());
    settle({});
  }
}

void NodeLook::note(const std::string& answer) {
  workers_.spare_no_more(query_->child());
  query_.reset();
  std::vector<check::Finding> errors;
  try {
    if (!answer.empty()) errors = find_errors(*before_, check::parse_json_text<check::HostRecord>(answer));
  } catch (const Error& error) {
    console::say_detail(error.what());
  }
  if (errors.empty()) return settle({});
  if (doubts_.empty()) {
    doubts_ = std::move(errors);
    return look();
  }
  const auto again = std::ranges::find_if(errors, [this](const check::Finding& each) {
    return std::ranges::find(doubts_, each.subject, &check::Finding::subject) != doubts_.end();
  });
  if (again == errors.end()) return settle({});
  if (const auto problem = probes::exclude_node(*plans_.node))
    console::say_notice(problem->what, problem->hint);
  settle(*again);
}

void NodeLook::settle(std::optional<check::Finding> finding) {
  finding_ = std::move(finding);
  if (const auto done = std::exchange(done_, nullptr)) done(finding_);
}

void NodeLook::when_known(std::function<void(const std::optional<check::Finding>&)> done) {
  if (!query_) return done(std::exchange(finding_, std::nullopt));
  done_ = std::move(done);
}

void NodeLook::end() {
  done_ = nullptr;
  finding_.reset();
  if (!query_) return;
  workers_.spare_no_more(query_->child());
  query_.reset();
}

}  // namespace ddprun::agent
