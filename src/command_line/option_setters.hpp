// What each option does to the draft. All throw UsageError naming the option or variable given.
#pragma once

#include "command_line/option_table.hpp"

namespace ddprun::command_line::setters {

// The program.
void module(Draft& draft, const Given& given);
void no_python(Draft& draft, const Given& given);
void run_path(Draft& draft, const Given& given);
void container(Draft& draft, const Given& given);
void stage(Draft& draft, const Given& given);
void stage_to(Draft& draft, const Given& given);
void stage_keep(Draft& draft, const Given& given);
void no_use_env(Draft& draft, const Given& given);

// Workers and nodes.
void workers_per_node(Draft& draft, const Given& given);
void nodes(Draft& draft, const Given& given);
void node_rank(Draft& draft, const Given& given);
void master_address(Draft& draft, const Given& given);
void master_port(Draft& draft, const Given& given);
void local_address(Draft& draft, const Given& given);
void standalone(Draft& draft, const Given& given);
void hosts(Draft& draft, const Given& given);
void hostfile(Draft& draft, const Given& given);
void launcher(Draft& draft, const Given& given);
void scheduler(Draft& draft, const Given& given);
void role(Draft& draft, const Given& given);
void virtual_local_rank(Draft& draft, const Given& given);

// How the nodes meet.
void rendezvous_backend(Draft& draft, const Given& given);
void rendezvous_endpoint(Draft& draft, const Given& given);
void rendezvous_id(Draft& draft, const Given& given);
void rendezvous_conf(Draft& draft, const Given& given);
void join_timeout(Draft& draft, const Given& given);
void rendezvous(Draft& draft, const Given& given);
void rendezvous_directory(Draft& draft, const Given& given);
void key_file(Draft& draft, const Given& given);
void store(Draft& draft, const Given& given);
void store_access(Draft& draft, const Given& given);
void store_memory(Draft& draft, const Given& given);
void site(Draft& draft, const Given& given);

// Binding.
void bind(Draft& draft, const Given& given);
void numa_binding(Draft& draft, const Given& given);
void memory_bind(Draft& draft, const Given& given);
void gpus_per_worker(Draft& draft, const Given& given);
void nic(Draft& draft, const Given& given);
void omp_places(Draft& draft, const Given& given);
void show_binding(Draft& draft, const Given& given);
void topology(Draft& draft, const Given& given);
void gpus(Draft& draft, const Given& given);

// Failures and signals.
void max_restarts(Draft& draft, const Given& given);
void grow(Draft& draft, const Given& given);
void spares(Draft& draft, const Given& given);
void restart_policy(Draft& draft, const Given& given);
void min_progress(Draft& draft, const Given& given);
void no_restart_on(Draft& draft, const Given& given);
void restart_backoff(Draft& draft, const Given& given);
void host_timeout(Draft& draft, const Given& given);
void standby(Draft& draft, const Given& given);
void standby_memory(Draft& draft, const Given& given);
void shutdown_timeout(Draft& draft, const Given& given);
void signals_to_handle(Draft& draft, const Given& given);

// Hangs and time limits.
void no_inspect(Draft& draft, const Given& given);
void hang_timeout(Draft& draft, const Given& given);
void on_hang(Draft& draft, const Given& given);
void exit_barrier_timeout(Draft& draft, const Given& given);
void signal_before_end(Draft& draft, const Given& given);
void requeue(Draft& draft, const Given& given);
void requeue_on(Draft& draft, const Given& given);
void min_attempt_time(Draft& draft, const Given& given);

// Output.
void redirects(Draft& draft, const Given& given);
void tee(Draft& draft, const Given& given);
void log_dir(Draft& draft, const Given& given);
void local_ranks_filter(Draft& draft, const Given& given);
void duplicate_output_filters(Draft& draft, const Given& given);
void duplicate_error_filters(Draft& draft, const Given& given);
void log_line_prefix(Draft& draft, const Given& given);
void logs(Draft& draft, const Given& given);
void label(Draft& draft, const Given& given);
void ranks(Draft& draft, const Given& given);
void fold(Draft& draft, const Given& given);
void timestamps(Draft& draft, const Given& given);
void gather(Draft& draft, const Given& given);
void log_rotate(Draft& draft, const Given& given);
void log_compress(Draft& draft, const Given& given);
void output_rate(Draft& draft, const Given& given);

// Looking first.
void dry_run(Draft& draft, const Given& given);
void check(Draft& draft, const Given& given);
void strict(Draft& draft, const Given& given);
void exclude_file(Draft& draft, const Given& given);
void capture(Draft& draft, const Given& given);
void snapshot(Draft& draft, const Given& given);
void report(Draft& draft, const Given& given);
void events(Draft& draft, const Given& given);
void status(Draft& draft, const Given& given);
void stacks(Draft& draft, const Given& given);
void watch(Draft& draft, const Given& given);
void timeline(Draft& draft, const Given& given);
void timeline_output(Draft& draft, const Given& given);
void metrics(Draft& draft, const Given& given);
void verbose(Draft& draft, const Given& given);
void print_config(Draft& draft, const Given& given);
void quiet(Draft& draft, const Given& given);

// About ddprun.
void help(Draft& draft, const Given& given);
void help_all(Draft& draft, const Given& given);
void version(Draft& draft, const Given& given);
void print_completion(Draft& draft, const Given& given);

// Torchrun's options that have nothing to act on here: checked, and noted for --verbose.
void monitor_interval(Draft& draft, const Given& given);
void use_env(Draft& draft, const Given& given);
void start_method(Draft& draft, const Given& given);
void event_log_handler(Draft& draft, const Given& given);

// Torchrun's options whose effect ddprun does not have: the value that asks for nothing passes.
void logs_specs(Draft& draft, const Given& given);

}  // namespace ddprun::command_line::setters
