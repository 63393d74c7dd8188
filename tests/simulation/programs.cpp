#include "programs.hpp"

#include <fmt/format.h>

#include <map>
#include <set>

#include "clock.hpp"
#include "programs/programs_job.hpp"
#include "world.hpp"

namespace ddprun::simulation {

using namespace programs;
using options::OnExit;
using std::chrono::seconds;

namespace {

constexpr Microseconds k_longest_run = seconds(600);
constexpr Microseconds k_patience = seconds(100'000);  // no schedule takes longer

// Behaviour of a program: how long it runs, and how it ends.
struct Course {
  Microseconds ready_after{0};
  Microseconds runs{0};
  int fails_one_in = 0;  // 0: never
};

class ProgramsWorld {
 public:
  ProgramsWorld(unsigned seed, bool trace) : random_(seed), trace_(trace) {
    const bool large = one_in(random_, 20);
    const int nodes = large ? 1000 : 1 + pick(random_, 12);
    for (int node = 0; node < nodes; ++node)
      nodes_.push_back({fmt::format("n{}", node + 1), fmt::format("10.0.0.{}", node), 4});
    const int most = large ? static_cast<int>(k_most_programs) : std::min(nodes, 6);
    const int count = large ? most : 1 + pick(random_, most);
    for (int i = 0; i < count; ++i) add_program(i, nodes / count);
    placed_ = place_programs(programs_, nodes_);
    for (std::size_t i = 0; i < placed_.programs.size(); ++i) {
      Course course;
      course.ready_after = between(random_, Microseconds(1000), seconds(20));
      course.runs = between(random_, Microseconds(1000), k_longest_run);
      if (one_in(random_, 4)) course.fails_one_in = 1 + pick(random_, 40);
      courses_.push_back(course);
    }
  }

  ProgramsSummary run() {
    std::vector<std::string> hosts;
    for (const JobNode& each : nodes_) hosts.push_back(each.host);
    job_.emplace(placed_, hosts);
    for (int losses = one_in(random_, 3) ? 1 + pick(random_, 3) : 0; losses > 0 && nodes_.size() > 1;
         --losses)
      clock_.after(between(random_, seconds(0), k_longest_run),
                   [this] { lose(1 + pick(random_, static_cast<int>(nodes_.size()) - 1)); });
    if (one_in(random_, 5)) clock_.after(between(random_, seconds(0), k_longest_run), [this] { stop_all(); });
    obey(job_->start(clock_.now()));
    while (!ended_) {
      if (clock_.now() - TimePoint{} > k_patience) violate("the job does not end");
      if (!clock_.step()) violate("nothing is left to happen, and the job has not ended");
    }
    for (const auto& [key, attempt] : running_)
      violate(fmt::format("{} runs after the end", name(key.second)));
    check_code();
    return {static_cast<int>(placed_.programs.size()), static_cast<int>(nodes_.size()), starts_again_,
            static_cast<int>(lost_.size()), *ended_ == 0};
  }

 private:
  using Place = std::pair<int, int>;  // node and program

  [[noreturn]] void violate(const std::string& what) const { throw Violation{what}; }
  std::string name(int program) const { return name_of(placed_.programs[static_cast<std::size_t>(program)]); }
  void say(const std::string& what) const {
    if (trace_)
      fmt::print("{:>12} {}\n", std::chrono::floor<Microseconds>(clock_.now().time_since_epoch()).count(),
                 what);
  }

  void add_program(int number, int nodes) {
    Program made;
    made.name = fmt::format("p{}", number);
    made.nodes = std::max(nodes, 1);
    made.words = {"--", made.name};
    made.workers = 1 + pick(random_, 4);
    made.ready_timeout = 60'000;
    made.on_exit = number == 0 ? OnExit::job : static_cast<OnExit>(pick(random_, 4));
    made.independent = one_in(random_, 4);
    for (int tries = pick(random_, 3); tries > 0 && number > 0; --tries)
      made.after.push_back(fmt::format("p{}", pick(random_, number)));
    programs_.push_back(std::move(made));
  }

  // ---- the first node's orders

  void obey(const JobActions& actions) {
    for (const Say& each : actions.sentences) say(each.what);
    for (const Order& order : actions.orders) {
      if (ended_) violate("an order after the end");
      if (order.what == Doing::end) {
        say(fmt::format("ends with {}", order.code));
        ended_ = order.code;
      } else if (order.what == Doing::start) {
        begin(order);
      } else {
        stop(order);
      }
    }
    if (const auto due = job_->deadline(); due && !ended_)
      clock_.at(*due, [this] {
        if (!ended_) obey(job_->on_time(clock_.now()));
      });
  }

  void begin(const Order& order) {
    const auto program = static_cast<std::size_t>(order.program);
    say(fmt::format("start {} attempt {}", name(order.program), order.attempt));
    starts_again_ += order.attempt > 0;
    for (const std::string& needed : placed_.programs[program].after) check_ready(needed, order.program);
    for (const auto& [key, attempt] : running_) {
      if (key.second == order.program) violate(fmt::format("{} starts while it runs", name(order.program)));
    }
    stopped_.erase(order.program);
    const Course& course = courses_[program];
    for (const int node : placed_.nodes[program]) {
      if (lost_.contains(node)) continue;
      running_[{node, order.program}] = order.attempt;
      const bool fails = course.fails_one_in > 0 && one_in(random_, course.fails_one_in);
      const Microseconds runs = fails ? between(random_, Microseconds(0), course.runs) : course.runs;
      clock_.after(runs,
                   [this, node, order, fails] { end(node, order, fails ? 1 + pick(random_, 255) : 0); });
      clock_.after(course.ready_after, [this, node, order] { get_ready(node, order); });
    }
  }

  void check_ready(const std::string& needed, int program) const {
    for (std::size_t i = 0; i < placed_.programs.size(); ++i) {
      if (placed_.programs[i].name == needed && !good_.contains(static_cast<int>(i)))
        violate(fmt::format("{} starts, and {} was not ready", name(program), name(static_cast<int>(i))));
    }
  }

  void stop(const Order& order) {
    say(fmt::format("stop {}", name(order.program)));
    if (!stopped_.insert(order.program).second)
      violate(fmt::format("{} is stopped twice", name(order.program)));
    const std::string& own = placed_.programs[static_cast<std::size_t>(order.program)].name;
    for (const auto& [key, attempt] : running_) {
      const auto& after = placed_.programs[static_cast<std::size_t>(key.second)].after;
      const bool needs = std::ranges::find(after, own) != after.end();
      if (needs && !lost_.contains(key.first))
        violate(fmt::format("{} is stopped while {} needs it", own, name(key.second)));
    }
    for (const int node : placed_.nodes[static_cast<std::size_t>(order.program)])
      clock_.after(between(random_, Microseconds(0), seconds(30)),
                   [this, node, order] { end(node, order, 143); });
  }

  // ---- the nodes

  void get_ready(int node, const Order& order) {
    const auto found = running_.find({node, order.program});
    if (found == running_.end() || found->second != order.attempt) return;
    good_.insert(order.program);
    tell({News::ready, node, order.program, order.attempt, 0});
  }

  void end(int node, const Order& order, int code) {
    const auto found = running_.find({node, order.program});
    if (found == running_.end() || found->second != order.attempt) return;
    running_.erase(found);
    say(fmt::format("{} ended on n{} with {}", name(order.program), node + 1, code));
    const bool told_to = stopped_.contains(order.program);
    failed_ |= code != 0 && !told_to;
    if (code == 0) good_.insert(order.program);
    if (code != 0 && !told_to) {  // its ddpruns on the other nodes end with it
      for (const int other : placed_.nodes[static_cast<std::size_t>(order.program)])
        clock_.after(between(random_, Microseconds(1000), seconds(5)),
                     [this, other, order, code] { end(other, order, code); });
    }
    tell({News::ended, node, order.program, order.attempt, code});
  }

  void tell(const NodeNews& news) {
    clock_.after(between(random_, Microseconds(100), Microseconds(50'000)), [this, news] {
      if (ended_) return;
      const bool decided = !job_->why().empty() || signalled_;
      const bool failed = news.what == News::ended && news.code != 0 && !stopped_.contains(news.program);
      obey(job_->on_news(news, clock_.now()));
      const auto program = static_cast<std::size_t>(news.program);
      const bool over = ended_ || job_->state_of(program) == "ended";
      has_to_fail_ |= !decided && failed && over && placed_.programs[program].on_exit <= OnExit::fail;
    });
  }

  void lose(int node) {
    if (!lost_.insert(node).second) return;
    say(fmt::format("n{} is lost", node + 1));
    std::erase_if(running_, [&](const auto& each) { return each.first.first == node; });
    clock_.after(between(random_, seconds(7), seconds(22)), [this, node] {
      if (!ended_) obey(job_->on_news({News::gone, node, 0, 0, 0}, clock_.now()));
    });
  }

  void stop_all() {
    if (ended_) return;
    say("a signal");
    signalled_ = true;
    obey(job_->on_stop());
  }

  void check_code() const {
    const bool may_fail = failed_ || !lost_.empty() || *ended_ == k_exit_deadline;
    if (*ended_ == 0 && has_to_fail_) violate("the job ends with 0, and a program has failed that counts");
    if (*ended_ != 0 && !may_fail) violate(fmt::format("the job ends with {} and nothing failed", *ended_));
  }

  Random random_;
  bool trace_;
  Clock clock_;
  std::vector<JobNode> nodes_;
  std::vector<Program> programs_;
  PlacedPrograms placed_;
  std::vector<Course> courses_;
  std::optional<ProgramsJob> job_;
  std::map<Place, int> running_;  // attempt
  std::set<int> lost_, stopped_;
  std::set<int> good_;  // programs that have been ready, or have ended with 0
  std::optional<int> ended_;
  int starts_again_ = 0;
  bool failed_ = false, has_to_fail_ = false, signalled_ = false;
};

}  // namespace

ProgramsSummary play_programs(unsigned seed, bool trace) { return ProgramsWorld(seed, trace).run(); }

}  // namespace ddprun::simulation
