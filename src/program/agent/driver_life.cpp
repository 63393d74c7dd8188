// Actions of the agent's state machine: messages to the coordinator, the stop of the workers, the agent's
// end.
#include <boost/asio/post.hpp>

#include "agent/driver.hpp"
#include "console/log.hpp"
#include "os/clock.hpp"

namespace ddprun::agent {

namespace {

constexpr Milliseconds k_parting_limit{30000};  // a coordinator whose output has no reader takes longer

}  // namespace

void Driver::carry_out(const lifecycle::AgentLifecycle::Actions& actions) {
  for (const lifecycle::LifeAction& action : actions)
    std::visit([this](const auto& each) { carry_out(each); }, action);
}

void Driver::carry_out(const lifecycle::life::SayError& action) {
  console::say_error(action.what, action.hint);
}

void Driver::carry_out(const lifecycle::life::Say& action) { console::say(action.what); }

void Driver::carry_out(const lifecycle::life::TellFirstStop&) { tell_early_kill(); }

void Driver::carry_out(const lifecycle::life::StopWorkers& action) {
  warned_workers_.end();
  endings_.note_stop_in_sight(os::now());
  if (action.of_job) endings_.note_stop(os::now());
  supervisor_.note_stop(
      action.signal, action.hurry, os::now(),
      action.undecided ? lifecycle::Supervisor::Delivery::undecided : lifecycle::Supervisor::Delivery::by_us);
  if (action.of_job) decide_soon();
}

void Driver::carry_out(const lifecycle::life::Judge& action) {
  signals_.judge(action.signal, action.way, action.maybe_tree);
}

void Driver::carry_out(const lifecycle::life::SendStopRequest& action) {
  link_.send(rendezvous::StopRequest{action.signal, plans_.node->host, action.whole_tree,
                                     stop_sender_.value_or(""), action.again});
  node_look_.give_up();
}

void Driver::carry_out(const lifecycle::life::SendStuck& action) {
  link_.send_if_linked(rendezvous::Stuck{action.attempt});
}

void Driver::carry_out(const lifecycle::life::SendStopped& action) {
  std::vector<report::KilledRanks> killed = endings_.killed_ranks();
  for (report::KilledRanks& each : killed) each.host = plans_.node->host;
  if (killed.size() > rendezvous::k_max_further_failures) killed.resize(rendezvous::k_max_further_failures);
  rendezvous::Stopped stopped{
      action.attempt,           endings_.further(told_failure_), endings_.stopped_ranks(),
      workers_.made_progress(), endings_.finished_ranks(),       endings_.finished_ago(),
      std::move(killed)};
  checkpoints_.when_settled([this, stopped = std::move(stopped)] {
    node_look_.when_known([this, stopped](const rendezvous::Unfit& unfit) {
      rendezvous::Stopped message = stopped;
      message.unfit = unfit;
      message.checkpoints = checkpoints_.held();
      link_.send(std::move(message));
    });
  });
}

void Driver::handle(const rendezvous::Look& look) {
  node_look_.begin({look.attempt, 0, false, /*again=*/true}, /*failed_here=*/false);
  node_look_.when_known([this, attempt = look.attempt](const rendezvous::Unfit& unfit) {
    link_.send_if_linked(rendezvous::Looked{attempt, unfit});
  });
}

// Writes output here again: the process that read it on another host has exited.
void Driver::carry_out(const lifecycle::life::TakeOutputBack&) {
  if (output_link_.restore()) workers_.reopen_outputs();
}

void Driver::carry_out(const lifecycle::life::AbandonWorkers&) { workers_.abandon(); }

void Driver::carry_out(const lifecycle::life::EndGathered& action) {
  workers_.end_gathered(action.patience, action.in_any_case);
}

void Driver::carry_out(const lifecycle::life::ReadOutput&) {
  workers_.when_read([this] { carry_out(life_.on_output_read()); });
}

// Waits for a reader (less, ^S) as long as it takes where there is no limit.
void Driver::carry_out(const lifecycle::life::WriteOutput& action) {
  workers_.when_drained(action.limit, [this, limit = action.limit] {
    files_.when_written(limit, [this] { carry_out(life_.on_output_written()); });
  });
}

// Posted, because rejoin() destroys the link whose callback we are in.
void Driver::carry_out(const lifecycle::life::Rejoin&) {
  node_look_.end();
  checkpoints_.when_settled([this] { boost::asio::post(context_, [this] { link_.rejoin(); }); });
}

void Driver::carry_out(const lifecycle::life::GiveUpOutput&) {
  output_link_.give_up();
  parting_timer_.cancel();
}

void Driver::carry_out(const lifecycle::life::Leave& action) {
  for (const std::string& loss : workers_.losses()) {
    console::say_error(loss);
    life_.note_loss();
  }
  standbys_.end();
  if (supervisor_.idle()) workers_.dismiss_reaper();  // workers that are left get a last try otherwise
  job_end_.end();
  grace_.end();
  if (!ended_badly_.empty()) on_failure_.job_ended(ended_badly_);
  requeue_.ask(plans_, began_, files_);
  files_.when_written(action.limit, [this, limit = action.limit] { part(limit); });
}

// The others may end now.
void Driver::part(std::optional<Milliseconds> limit) {
  link_.finish();
  end_warm_up();
  status_.end();
  restarts_.end();
  profiles_.end();
  store_.close();
  const bool waits = life_.lets_coordinator_end_first();
  if (!waits) signals_.leave();
  output_link_.finish(context_, limit, [this, waits] {
    front_end_.tell_end({life_.exit_code(), true, link_.coordinates()},
                        [this, waits] { waits ? end_after_coordinator() : context_.stop(); });
  });
}

void Driver::end_after_coordinator() {
  const bool waits = !coordinator_ended_ && life_.lets_coordinator_end_first();  // without a request to stop
  parting_timer_.expires_after(waits ? k_parting_limit : Milliseconds{0});
  parting_timer_.async_wait([this](const boost::system::error_code&) {
    signals_.leave();
    context_.stop();
  });
}

}  // namespace ddprun::agent
