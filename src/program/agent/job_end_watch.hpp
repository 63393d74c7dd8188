// Watch, beside the coordinator, for the scheduler's end of the job; has the workers warned of it in time.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>

#include "agent/plans.hpp"
#include "lifecycle/end_watch.hpp"
#include "probes/child_query.hpp"

namespace ddprun::agent {

class JobEndWatch {
 public:
  struct Hooks {
    std::function<void(TimePoint end)> know;
    std::function<void(int signal)> warn;  // all workers, of this attempt and of later ones
  };
  JobEndWatch(boost::asio::io_context& context, const Plans& plans, Hooks hooks);

  void begin();  // the workers start; once for all attempts
  void end();    // ends with the job
  bool warned() const { return watch_.warned(); }

 private:
  void carry_out(const lifecycle::EndWatch::Actions& actions);
  void carry_out(const lifecycle::EndWatch::Ask& action);
  void carry_out(const lifecycle::EndWatch::Know& action);
  void carry_out(const lifecycle::EndWatch::Warn& action);
  void carry_out(const lifecycle::EndWatch::SayUnknown& action);
  void note_answer(std::optional<Milliseconds> left);
  void arm_timer();

  boost::asio::io_context& context_;
  const Plans& plans_;
  Hooks hooks_;
  lifecycle::EndWatch watch_;
  boost::asio::steady_timer timer_;
  std::unique_ptr<probes::ChildQuery> query_;  // under way
};

}  // namespace ddprun::agent
