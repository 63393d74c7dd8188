#include "lifecycle/standby_plan.hpp"

#include <algorithm>

namespace ddprun::lifecycle {

void StandbyPlan::begin_attempt(std::size_t workers, TimePoint now) {
  workers_.resize(workers);
  for (Worker& worker : workers_) {
    worker.last = 0;
    worker.settled = worker.given_up = false;
    worker.known_before = worker.known > 0;
  }
  began_ = now;
  alike_ = 0;
  silent_ = false;
}

// Notes the number of modules; reports whether there is something new.
bool StandbyPlan::note_modules(Worker& worker, std::size_t count) {
  if (count == 0) return false;
  const bool is_new = count != worker.last;
  worker.settled |= !is_new || worker.known_before;
  worker.last = count;
  worker.known = std::max(worker.known, count);
  return is_new;
}

void StandbyPlan::note_modules(const std::vector<std::size_t>& counts) {
  bool any = false;
  for (std::size_t i = 0; i < counts.size() && i < workers_.size(); ++i)
    any |= note_modules(workers_[i], counts[i]);
  alike_ = any ? 0 : alike_ + 1;
  silent_ = std::ranges::any_of(workers_, [](const Worker& worker) { return worker.last == 0; });
}

void StandbyPlan::note_ready(std::size_t worker) { workers_.at(worker).state = State::ready; }

void StandbyPlan::note_taken(std::size_t worker) { workers_.at(worker).state = State::none; }

void StandbyPlan::note_unfit(std::size_t worker, const std::string& package) {
  Worker& unfit = workers_.at(worker);
  unfit.state = State::none;
  ++unfit.failures;
  if (!package.empty() && std::ranges::find(left_out_, package) == left_out_.end())
    left_out_.push_back(package);
}

void StandbyPlan::give_up(std::size_t worker) {
  workers_.at(worker).state = State::none;
  workers_.at(worker).given_up = true;
}

std::vector<StandbyPlan::Prepare> StandbyPlan::take_due(TimePoint now) {
  std::vector<Prepare> due;
  auto busy = static_cast<std::size_t>(std::ranges::count(workers_, State::importing, &Worker::state));
  for (std::size_t i = 0; i < workers_.size() && busy < at_once_; ++i) {
    Worker& worker = workers_[i];
    const bool anew = worker.state == State::none && !worker.given_up && worker.failures < k_most_failures;
    const bool more = worker.state == State::ready && worker.known > worker.imported;
    if (!worker.settled || !(anew || more)) continue;
    worker.state = State::importing;
    worker.imported = worker.known;
    worker.begun = now;
    due.push_back({i, anew});
    ++busy;
  }
  return due;
}

std::vector<std::size_t> StandbyPlan::overdue(TimePoint now) const {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const bool is_late = workers_[i].state == State::importing && now - workers_[i].begun >= k_longest_import;
    if (is_late) found.push_back(i);
  }
  return found;
}

TimePoint StandbyPlan::next_look(TimePoint now) const {
  const auto age = std::chrono::duration_cast<Milliseconds>(now - began_);
  const bool waits_for_answer = silent_ && age < k_rare_look;
  if (alike_ >= k_looks_alike && !waits_for_answer) return now + k_rare_look;
  return now + std::clamp(age / (waits_for_answer ? 16 : 4), k_first_look, k_usual_look);
}

}  // namespace ddprun::lifecycle
