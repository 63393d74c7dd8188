#include "program_nodes/program_node.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "allocation/detection/left_over.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "console/console.hpp"
#include "lifecycle/supervisor.hpp"
#include "net/timed_socket.hpp"
#include "os/atomic_file.hpp"
#include "os/capture/capture_hardware.hpp"
#include "os/clock.hpp"
#include "os/files/temp_dir.hpp"
#include "os/process/signals.hpp"
#include "placement/devices.hpp"
#include "probes/own_worker.hpp"
#include "program_nodes/program_child.hpp"
#include "programs/programs_job.hpp"
#include "programs/programs_report.hpp"
#include "programs/replicas.hpp"

namespace ddprun::program_nodes {

using programs::Doing;
using programs::JobNode;
using programs::News;
using programs::NodeNews;
using programs::Order;
using programs::Program;
using programs::ProgramsJob;
using programs::Say;
using programs::Shown;

namespace {

using Json = nlohmann::json;

constexpr Milliseconds k_meeting{60'000};  // until the record of every node is there
constexpr Milliseconds k_look{100};        // between two looks at what is to get ready
constexpr Milliseconds k_beat{2'000};      // between two signs of life of a node
constexpr Milliseconds k_silent{7'000};    // time without one, once others of a program have ended
constexpr Milliseconds k_silent_long{20'000};
constexpr int k_turns_of_all = 10;  // turns in which all nodes are looked at
constexpr Milliseconds k_orders_due{
    3'000};  // after a stop signal, before a node stops its programs by itself

// Answer to all nodes before anything starts; with an error nothing does.
struct MetNodes {
  std::vector<JobNode> nodes;
  std::string error;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MetNodes, nodes, error)

std::string numbered(const char* what, std::int64_t number) {
  return fmt::format("ddprun-programs/{}/{}", what, number);
}
constexpr const char* k_nodes = "ddprun-programs/nodes";
constexpr const char* k_news_count = "ddprun-programs/news";
constexpr const char* k_orders_count = "ddprun-programs/orders";

class ProgramNode {
 public:
  ProgramNode(facts::Snapshot& snapshot, const probes::OwnWorker& worker, std::vector<Program> programs,
              std::string report_file)
      : snapshot_(snapshot),
        worker_(worker),
        programs_(std::move(programs)),
        report_file_(std::move(report_file)),
        rank_(worker.rank),
        world_(worker.world),
        signals_(os::handled_signals()),
        store_(worker.address, worker.port),
        orders_(worker.address, worker.port),
        folder_(facts::find_variable(snapshot, "TMPDIR")) {}

  int run() {
    if (!meet()) return k_exit_usage;
    make_children();
    orders_.ask(numbered("order", next_order_));
    if (rank_ == 0) {
      std::vector<std::string> hosts;
      for (const JobNode& each : met_.nodes) hosts.push_back(each.host);
      job_.emplace(placed_, std::move(hosts));
      news_.emplace(worker_.address, worker_.port);
      news_->ask(numbered("news", next_news_));
      carry_out(job_->start(os::now()));
    }
    try {
      while (!done()) turn();
      if (job_ && !report_file_.empty()) write_report();
    } catch (const Error& error) {
      if (!stop_alone())
        console::say_error(fmt::format("on {}: {}", snapshot_.host.name, error.what()), error.hint());
      return k_exit_own_failure;
    }
    return code_.value_or(0);
  }

 private:
  // ---- the meeting

  bool meet() {
    if (!snapshot_.host.topology) os::capture_hardware(snapshot_.host, {});
    devices_ = placement::find_visible_devices(snapshot_);
    const JobNode own{snapshot_.host.name, rank_ == 0 ? worker_.address : store_.local_address(),
                      static_cast<int>(devices_.entries.size())};
    store_.set(numbered("node", rank_), Json(own).dump());
    if (rank_ == 0) {
      lead_meeting();
      store_.set(k_nodes, Json(met_).dump());
      return met_.error.empty();
    }
    const auto told = store_.get(k_nodes, 2 * k_meeting);
    if (!told) throw Error("the first node did not say which programs run where");
    met_ = Json::parse(*told).get<MetNodes>();
    if (met_.error.empty()) placed_ = programs::place_programs(programs_, met_.nodes);
    return met_.error.empty();
  }

  void lead_meeting() {
    const TimePoint until = os::now() + k_meeting;
    for (int node = 0; node < world_; ++node) {
      const auto left = std::chrono::ceil<Milliseconds>(until - os::now());
      const auto told = store_.get(numbered("node", node), std::max(left, Milliseconds{1}));
      if (!told)
        throw Error(
            fmt::format("node {} of {} said nothing within {}", node, world_, describe_duration(k_meeting)));
      met_.nodes.push_back(Json::parse(*told).get<JobNode>());
    }
    try {
      placed_ = programs::place_programs(programs_, met_.nodes);
    } catch (const Error& error) {
      met_.error = error.what();
      console::say_error(error.what(), error.hint());
    }
  }

  // ---- the programs of this node

  // DDPRUN_HOSTS_SERVER and DDPRUN_ADDR_SERVER, DDPRUN_PROGRAMS and its file.
  facts::Environment with_table() const {
    facts::Environment all = snapshot_.environment;
    for (const Shown& each : shown_) {
      all["DDPRUN_HOSTS_" + programs::variable_part(each.name)] = join(each.hosts, ",");
      all["DDPRUN_ADDR_" + programs::variable_part(each.name)] = each.addresses.front();
    }
    all["DDPRUN_PROGRAMS"] = Json(shown_).dump();
    all["DDPRUN_PROGRAMS_FILE"] = programs_file();
    return all;
  }
  std::string programs_file() const { return folder_.path() + "/programs.json"; }

  void make_children() {
    shown_ = programs::make_table(placed_, met_.nodes);
    const std::string jobs = allocation::name_jobs(snapshot_.environment);
    const JobNode& here = node(rank_);
    for (const auto& [program, own] : programs::share_node(placed_.programs, placed_.nodes, rank_, here.host,
                                                           cores_of(snapshot_.host), here.gpus)) {
      const Program& each = placed_.programs[program];
      ProgramPlace place;
      const auto& nodes = placed_.nodes[program];
      for (const int number : nodes) place.hosts.push_back(node(number).host);
      place.rank = static_cast<int>(std::ranges::find(nodes, rank_) - nodes.begin());
      place.address = node(nodes.front()).address;
      place.own_address = here.address;
      place.job = jobs.substr(0, jobs.find(','));
      place.share = own;
      place.note_gpus(devices_);
      place.first = program == 0 && place.rank == 0;
      place.folder = fmt::format("{}/{}", folder_.path(), program);
      std::filesystem::create_directory(place.folder);
      children_.emplace(program, ProgramChild(each, std::move(place)));
    }
  }
  const JobNode& node(int number) const { return met_.nodes[static_cast<std::size_t>(number)]; }

  // ---- one turn of the loop

  bool runs() const {
    return std::ranges::any_of(children_, [](const auto& each) { return each.second.runs(); });
  }
  bool done() const { return code_.has_value() && !runs(); }

  void turn() {
    wait();
    while (const auto signal = signals_.read()) on_signal(*signal);
    if (has_order_)
      take(orders_, "order", k_orders_count, next_order_, [this](const Json& message) { follow(message); });
    if (has_news_) {
      take(*news_, "news", k_news_count, next_news_,
           [this](const Json& message) { hear(message.get<NodeNews>()); });
    }
    look_at_children();
    if (job_ && !job_->over()) {
      if (const auto due = job_->deadline(); due && os::now() >= *due) carry_out(job_->on_time(os::now()));
      look_for_silent();
      if (table_changed_ && os::now() >= table_due_) tell_table();
    }
    if (os::now() >= beat_due_) {
      store_.add(numbered("beat", rank_), 1);
      beat_due_ = os::now() + k_beat;
    }
    const bool unheard = job_ == std::nullopt && stop_due_ && os::now() >= *stop_due_;
    if (unheard) throw Error("the first node gave no order to stop");
  }

  void wait() {
    std::vector<pollfd> files{{signals_.descriptor().get(), POLLIN, 0}, {orders_.descriptor(), POLLIN, 0}};
    if (news_) files.push_back({news_->descriptor(), POLLIN, 0});
    ::poll(files.data(), files.size(), static_cast<int>(k_look.count()));
    has_order_ = (files[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0;
    has_news_ = news_ && (files[2].revents & (POLLIN | POLLHUP | POLLERR)) != 0;
  }

  void on_signal(const os::SignalEvent& event) {
    if (event.number == SIGCHLD) return;
    if (!lifecycle::asks_to_end(event.number)) {
      if (!os::is_passed_on(event) && event.number != SIGTSTP) return;
      for (auto& [program, child] : children_) {
        const bool warning = event.number == placed_.programs.front().warned;
        if (!warning || placed_.programs[program].warned != 0) child.signal(event.number);
      }
      return;
    }
    if (std::exchange(stop_signal_, event.number) == 0 && !stop_ordered_)
      stop_due_ = os::now() + k_orders_due;
    if (job_) carry_out(job_->on_stop());
  }

  // Takes all numbered messages that are there, and asks for the next one.
  template <class Handle>
  void take(net::StoreClient& from, const char* what, const char* count, std::int64_t& next, Handle handle) {
    for (std::string text = from.take();; text = store_.get(numbered(what, next), k_meeting).value_or("{}")) {
      handle(Json::parse(text));
      ++next;
      if (store_.add(count, 0) < next) break;
    }
    from.ask(numbered(what, next));
  }

  void follow(const Json& message) {
    stop_due_.reset();
    if (message.contains("shown")) {
      shown_ = message.at("shown").get<std::vector<Shown>>();
      os::replace_file(programs_file(), message.at("shown").dump(1));
      return;
    }
    const Order order = message.get<Order>();
    if (order.what == Doing::end) {
      code_ = order.code;
      return;
    }
    stop_ordered_ |= order.what == Doing::stop;  // it may come before the signal does
    const auto child = children_.find(static_cast<std::size_t>(order.program));
    if (child == children_.end()) return;
    if (order.what == Doing::start) return child->second.start(order.attempt, with_table());
    child->second.signal(stop_signal_ != 0 ? stop_signal_ : SIGTERM);
  }

  void look_at_children() {
    for (auto& [program, child] : children_) {
      if (const auto code = child.take_end())
        tell({News::ended, rank_, static_cast<int>(program), child.attempt(), *code,
              report_file_.empty() ? "" : child.read_report()});
      if (const auto ready = child.take_ready(os::now()))
        tell({*ready ? News::ready : News::not_ready, rank_, static_cast<int>(program), child.attempt(), 0});
    }
  }

  void tell(const NodeNews& news) {
    store_.set(numbered("news", store_.add(k_news_count, 1)), Json(news).dump());
  }

  // ---- the first node

  void give(const Json& message) {
    store_.set(numbered("order", store_.add(k_orders_count, 1)), message.dump());
  }

  void hear(const NodeNews& news) {
    if (!news.report.empty()) {
      reports_[static_cast<std::size_t>(news.program)] = news.report;
      store_.set(numbered("news", next_news_), "");  // a server may end thousands of times
    }
    carry_out(job_->on_news(news, os::now()));
  }

  void write_report() const {
    const int code = stop_signal_ != 0 ? 128 + stop_signal_ : code_.value_or(0);
    const programs::ReportedJob reported{reports_, code,      stop_signal_,
                                         began_,   os::now(), os::unix_milliseconds()};
    const std::string why = os::replace_file(report_file_, programs::render_programs_report(*job_, reported));
    if (!why.empty()) console::say_error(fmt::format("--report was not written: {}", why));
  }

  void carry_out(const ProgramsJob::Actions& actions) {
    table_changed_ |= actions.changed;
    if (table_changed_ && (!actions.orders.empty() || os::now() >= table_due_)) tell_table();
    for (const Order& order : actions.orders) give(Json(order));
    for (const Say& say : actions.sentences)
      say.hint.empty() ? console::say(say.what) : console::say_error(say.what, say.hint);
  }

  // Gives all nodes the table of programs: before an order, else at most once in k_look, as it may be long.
  void tell_table() {
    std::vector<programs::ProgramState> states;
    for (std::size_t i = 0; i < job_->size(); ++i) {
      states.push_back({job_->state_of(i), job_->attempt_of(i), {}});
      for (const int ready : job_->ready_nodes(i)) states.back().ready.push_back(node(ready).address);
    }
    programs::update_table(shown_, placed_.programs, states);
    give(Json{{"shown", shown_}});
    table_changed_ = false;
    table_due_ = os::now() + k_look;
  }

  // Looks at the signs of life of some nodes, in turn: one without is lost, sooner where others of its
  // program have ended.
  void look_for_silent() {
    for (int looks = 1 + world_ / k_turns_of_all; looks > 0; --looks) {
      looked_at_ = (looked_at_ + 1) % world_;
      if (looked_at_ == rank_ || job_->is_gone(looked_at_)) continue;
      const std::int64_t beats = store_.add(numbered("beat", looked_at_), 0);
      auto& [seen, since] = heard_[looked_at_];
      const TimePoint now = os::now();
      if (beats != seen || since == TimePoint{}) {
        seen = beats;
        since = now;
      } else if (now - since > (job_->is_awaited(looked_at_) ? k_silent : k_silent_long)) {
        carry_out(job_->on_news({News::gone, looked_at_, 0, 0, 0}, now));
      }
    }
  }

  // Ends what runs here, as nobody is left who could say so. Returns whether the launch asks for the end: it
  // knows why, and another node may take over. It kills this process once the grace is over.
  bool stop_alone() {
    for (auto& [program, child] : children_) child.signal(SIGTERM);
    const TimePoint until = os::now() + k_silent_long;
    while (runs() || (stop_signal_ == 0 && os::now() < until)) {
      pollfd file{signals_.descriptor().get(), POLLIN, 0};
      ::poll(&file, 1, static_cast<int>(k_look.count()));
      while (const auto signal = signals_.read())
        if (lifecycle::asks_to_end(signal->number)) stop_signal_ = signal->number;
      for (auto& [program, child] : children_) child.take_end();
    }
    return stop_signal_ != 0;
  }

  facts::Snapshot& snapshot_;
  probes::OwnWorker worker_;
  std::vector<Program> programs_;
  std::string report_file_;  // --report; empty: none
  int rank_, world_;
  os::SignalSource signals_;
  net::StoreClient store_, orders_;
  std::optional<net::StoreClient> news_;
  os::TempDir folder_;
  placement::VisibleDevices devices_;
  MetNodes met_;
  programs::PlacedPrograms placed_;
  std::vector<Shown> shown_;
  std::map<std::size_t, ProgramChild> children_;
  std::optional<ProgramsJob> job_;  // on the first node
  std::map<int, std::pair<std::int64_t, TimePoint>> heard_;
  int looked_at_ = 0;
  bool table_changed_ = false;
  TimePoint table_due_;
  std::map<std::size_t, std::string> reports_;  // the latest of each program, on the first node
  TimePoint began_ = os::now();
  std::int64_t next_order_ = 1, next_news_ = 1;
  bool has_order_ = false, has_news_ = false;
  int stop_signal_ = 0;
  bool stop_ordered_ = false;
  std::optional<TimePoint> stop_due_;  // when an order to stop has to have come
  TimePoint beat_due_;
  std::optional<int> code_;
};

}  // namespace

bool is_program_node(const facts::Snapshot& snapshot) {
  return !snapshot.arguments.empty() && snapshot.arguments.front() == k_program_node;
}

int run_program_node(facts::Snapshot& snapshot) {
  if (snapshot.arguments.size() != 3)
    throw UsageError(fmt::format("{} is internal to ddprun", k_program_node), "leave it out");
  std::vector<Program> programs;
  try {
    programs = Json::parse(snapshot.arguments[1]).get<std::vector<Program>>();
  } catch (const Json::exception&) {
    throw UsageError(fmt::format("{} is internal to ddprun", k_program_node), "leave it out");
  }
  return ProgramNode(snapshot, probes::read_own_worker(snapshot, k_program_node), std::move(programs),
                     snapshot.arguments[2])
      .run();
}

}  // namespace ddprun::program_nodes
