// Gives the signal of --signal-before-end to this host's workers.
// Each main process gets it once, as soon as it handles it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <vector>

#include "agent/plans.hpp"
#include "lifecycle/pending_warning.hpp"
#include "workers/worker_group.hpp"

namespace ddprun::agent {

class WarnedWorkers {
 public:
  struct Hooks {
    std::function<bool(std::size_t worker)> runs;
    std::function<void(int signal)> sent;  // to a worker
  };
  WarnedWorkers(boost::asio::io_context& context, const Plans& plans, workers::WorkerGroup& workers,
                Hooks hooks);

  void begin(int signal);  // begins with the workers of the current attempt
  void end();              // ends with the attempt, or when it is stopped

 private:
  void look();
  lifecycle::PendingWarning::Worker state_of(std::size_t worker) const;
  void tell_deaf(const std::vector<std::size_t>& workers) const;

  const Plans& plans_;
  workers::WorkerGroup& workers_;
  Hooks hooks_;
  boost::asio::steady_timer timer_;
  lifecycle::PendingWarning pending_;
  int signal_ = 0;
};

}  // namespace ddprun::agent
