#include "status/worker_signs.hpp"

namespace ddprun::status {

status::Signs signs_of(const WorkerStatus& worker) {
  status::Signs signs;
  signs.running = worker.pid != 0;
  signs.output_age = worker.output_age;
  signs.progress_age = worker.progress_age;
  if (worker.view.answers) signs.waits = worker.view.collective && worker.view.collective->pending;
  if (worker.view.collective) signs.collective_age = worker.view.collective->age;
  if (worker.view.nccl) signs.nccl_started = worker.view.nccl->started;
  signs.io_bytes = worker.io.value_or(0);
  signs.own_cpu = worker.own_cpu.value_or(Milliseconds{0});
  signs.cpu_wait = worker.cpu_wait.value_or(Milliseconds{0});
  signs.children_cpu = worker.cpu_time.value_or(signs.own_cpu) - signs.own_cpu;
  return signs;
}

}  // namespace ddprun::status
