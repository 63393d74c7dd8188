#include "command_line/command_line.hpp"

#include <csignal>

#include "catch.hpp"
#include "error_text.hpp"
#include "version_number.hpp"

using namespace ddprun;
using namespace ddprun::command_line;

namespace {

using Words = std::vector<std::string>;

// The options of `ddprun WORDS train.py`.
options::Options parse(Words words, const facts::Environment& environment = {}) {
  words.emplace_back("train.py");
  return std::get<options::Options>(parse_command_line(words, environment));
}

std::string error_for(Words words, const facts::Environment& environment = {}) {
  words.emplace_back("train.py");
  return usage_error_of([&] { parse_command_line(words, environment); });
}

std::string notice_of(const options::Options& options) {
  if (options.notices.size() != 1) return std::to_string(options.notices.size()) + " notices";
  return options.notices.front().what + " | " + options.notices.front().hint;
}

Printed printed(const Words& words, const facts::Environment& environment = {}) {
  return std::get<Printed>(parse_command_line(words, environment));
}

}  // namespace

TEST_CASE("a script alone leaves everything to be found out") {
  const options::Options options = parse({});
  CHECK(options.command == Words{"train.py"});
  CHECK(options.workers.kind == options::WorkersKind::unset);
  CHECK_FALSE(options.place.nodes);
  CHECK_FALSE(options.place.address);
  CHECK(options.max_restarts.value == 0);
  CHECK(options.stop_signals.value.empty());
  CHECK(options.dry_run == options::DryRun::off);
  CHECK(options.notices.empty());
}

TEST_CASE("torchrun's static launch is understood with its origins") {
  const options::Options options =
      parse({"--nnodes=2", "--node_rank=1", "--nproc_per_node", "4", "--master_addr=n1", "--master-port",
             "29501", "--max-restarts=3", "--role=trainer"});
  CHECK(options.place.nodes == sourced(2, "--nnodes"));
  CHECK(options.place.node_rank == sourced(1, "--node-rank"));
  CHECK(options.place.workers_per_node == sourced(4, "--nproc-per-node"));
  CHECK(options.place.address == sourced(std::string("n1"), "--master-addr"));
  CHECK(options.place.port == sourced(29501, "--master-port"));
  CHECK(options.max_restarts == sourced(3, "--max-restarts"));
  CHECK(options.workers.number == 4);
  CHECK(options.role.value == "trainer");
}

TEST_CASE("a scheduler is named by one of the known words") {
  CHECK(parse({"--scheduler=pbs"}).place.scheduler == sourced(std::string("pbs"), "--scheduler"));
  CHECK(error_for({"--scheduler=pbspro"}) ==
        "--scheduler is not one of flux, slurm, pbs, lsf, sge, oar, pjm, mpi, none: 'pbspro' | give one of "
        "them");
}

TEST_CASE("an endpoint gives address and port") {
  const options::Options options = parse({"--rdzv-endpoint=[fe80::1]:29400", "--rdzv-id=job7"});
  CHECK(options.place.address == sourced(std::string("fe80::1"), "--rdzv-endpoint", Source::endpoint));
  CHECK(options.place.port == sourced(29400, "--rdzv-endpoint"));
  CHECK(options.place.run_id == sourced(std::string("job7"), "--rdzv-id"));
  CHECK(parse({"--rdzv-endpoint=localhost:0"}).place.port == sourced(0, "--rdzv-endpoint"));
  CHECK_FALSE(parse({"--rdzv-endpoint="}).place.address);
}

TEST_CASE("an endpoint wins over the address it replaces and says so") {
  const options::Options options = parse({"--rdzv-endpoint=n2", "--master-addr=n1", "--master-port=29501"});
  CHECK(options.place.address == sourced(std::string("n2"), "--rdzv-endpoint", Source::endpoint));
  CHECK(options.place.port == sourced(29501, "--master-port"));
  CHECK(notice_of(options) == "--master-addr has no effect | --rdzv-endpoint gives the address");
  CHECK(notice_of(parse({"--rdzv-endpoint=n2:1", "--master-port=2"})) ==
        "--master-port has no effect | --rdzv-endpoint gives the port");
}

TEST_CASE("standalone forgets the other nodes and says so") {
  const options::Options options =
      parse({"--standalone", "--nproc-per-node=2", "--rdzv-endpoint=n1:29400", "--nnodes=1"});
  CHECK(options.place.standalone);
  CHECK_FALSE(options.place.address);
  CHECK_FALSE(options.place.port);
  CHECK(options.place.workers_per_node->value == 2);
  CHECK(notice_of(options) == "--rdzv-endpoint has no effect | --standalone uses this host only");
  CHECK(error_for({"--standalone"}, {{"PET_NNODES", "2"}}) ==
        "--standalone means one node, but PET_NNODES is 2 | leave out --standalone or PET_NNODES");
}

TEST_CASE("everything may come through PET_ variables") {
  const options::Options options = parse({}, {{"PET_NNODES", "1:1"},
                                              {"PET_NPROC_PER_NODE", "4"},
                                              {"PET_RDZV_ID", "job"},
                                              {"PET_RDZV_BACKEND", "c10d"},
                                              {"PET_RDZV_ENDPOINT", "n1:29400"},
                                              {"PET_RDZV_CONF", "join_timeout=5"},
                                              {"PET_MODULE", "1"},
                                              {"PET_VIRTUAL_LOCAL_RANK", "2"},
                                              {"PET_SIGNALS_TO_HANDLE", "SIGUSR1"},
                                              {"PET_LOG_DIR", "/dev/null"},
                                              {"PET_TEE", "0"}});
  CHECK(options.place.nodes == sourced(1, "PET_NNODES"));
  CHECK(options.workers.origin == "PET_NPROC_PER_NODE");
  CHECK(options.place.address == sourced(std::string("n1"), "PET_RDZV_ENDPOINT", Source::endpoint));
  CHECK(options.join_timeout == sourced(Milliseconds{5000}, "PET_RDZV_CONF join_timeout"));
  CHECK(options.module);
  CHECK(options.virtual_local_rank);
  CHECK(options.stop_signals == sourced(std::vector<int>{SIGUSR1}, "PET_SIGNALS_TO_HANDLE"));
}

TEST_CASE("the command line wins over a PET_ variable, even a broken one") {
  CHECK(parse({"--nnodes=3"}, {{"PET_NNODES", "2"}}).place.nodes->value == 3);
  CHECK(parse({"--nnodes=3"}, {{"PET_NNODES", "x"}}).place.nodes->value == 3);
  CHECK(parse({"--module"}, {{"PET_MODULE", "0"}}).module);
  CHECK_FALSE(parse({}, {{"PET_MODULE", "0"}}).module);
}

TEST_CASE("a broken PET_ variable is named") {
  CHECK(error_for({}, {{"PET_MODULE", "yes"}}) ==
        "PET_MODULE is not a number: 'yes' | set it to 1 for on or 0 for off, or unset it");
  CHECK(error_for({}, {{"PET_MODULE", ""}}) ==
        "PET_MODULE is not a number: '' | set it to 1 for on or 0 for off, or unset it");
  CHECK(error_for({}, {{"PET_NPROC_PER_NODE", "unknown"}}) ==
        "PET_NPROC_PER_NODE is not a number of workers: 'unknown' | give a number from 1 to 4096, or auto, "
        "gpu, "
        "cpu or xpu");
  CHECK(error_for({}, {{"PET_NNODES", ""}}) ==
        "PET_NNODES has no value | the variable that should give it may not be set: set it, or leave the "
        "option "
        "out");
}

TEST_CASE("our own options have no variable") {
  CHECK_FALSE(
      parse({}, {{"PET_VERBOSE", "1"}, {"PET_LOGS_SPECS", "x"}, {"PET_NUMA_BINDING", "node"}}).verbose);
}

TEST_CASE("of a repeated option the last one counts") {
  CHECK(parse({"--nnodes=2", "--nnodes=3"}).place.nodes->value == 3);
  CHECK(parse({"-m", "-m"}).module);
}

TEST_CASE("each --stage adds a path") {
  CHECK(parse({"--stage=/a", "--nnodes=2", "--stage", "/b"}).stage.paths == Words{"/a", "/b"});
}

TEST_CASE("values reach the options as they were typed") {
  CHECK(parse({"--role", "[a,b]"}).role.value == "[a,b]");
  CHECK(parse({"--role={}"}).role.value == "{}");
  CHECK(parse({"--role="}).role.value.empty());
  CHECK(parse({"--role=--nnodes"}).role.value == "--nnodes");
  CHECK(parse({"--role= %% \\n"}).role.value == " %% \\n");
}

TEST_CASE("module and no-python contradict each other wherever they come from") {
  CHECK(error_for({"-m", "--no-python"}) ==
        "--module and --no-python contradict each other | leave out one of them: a module needs python to "
        "run it");
  CHECK(error_for({}, {{"PET_MODULE", "1"}, {"PET_NO_PYTHON", "1"}}) ==
        "PET_MODULE and PET_NO_PYTHON contradict each other | leave out one of them: a module needs python "
        "to run it");
}

TEST_CASE("run-path wants a file and wins over its rivals") {
  const options::Options options = parse({"--run-path", "--no-python"});
  CHECK(options.run_path);
  CHECK(notice_of(options) == "--no-python has no effect | --run-path runs the file with python");
  const auto error = [](const char* name) {
    return usage_error_of([&] { parse_command_line({"--run-path", name}, {}); });
  };
  CHECK(error("pkg.train:main") ==
        "--run-path requires a file, but pkg.train:main names a function | give the path of a script");
  CHECK(error("/a/b:c.py") == "no error");
  CHECK(error("train.py:") == "no error");
}

TEST_CASE("a missing script is an error unless there is nothing to run") {
  CHECK(usage_error_of([] {
          parse_command_line({"--nnodes", "2"}, {});
        }) == "there is no script to run | write it after the options, as in ddprun train.py");
  CHECK(std::get<options::Options>(parse_command_line({"--capture", "here.json"}, {})).capture_file ==
        "here.json");
  CHECK(std::get<options::Options>(parse_command_line({"--dry-run=env"}, {})).command.empty());
  CHECK(std::get<options::Options>(parse_command_line({"--dry-run"}, {})).command.empty());
}

TEST_CASE("times are seconds or have a unit") {
  CHECK(parse({"--shutdown-timeout=0"}).shutdown_timeout.value == Milliseconds{0});
  CHECK(parse({"--shutdown-timeout=90s"}).shutdown_timeout ==
        sourced(Milliseconds{90000}, "--shutdown-timeout"));
  CHECK(parse({"--join-timeout=2m"}).join_timeout == sourced(Milliseconds{120000}, "--join-timeout"));
  CHECK(parse({}, {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "600"}}).shutdown_timeout ==
        sourced(Milliseconds{600000}, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"));
  CHECK(parse({"--shutdown-timeout=1"}, {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "x"}}).shutdown_timeout.value ==
        Milliseconds{1000});
}

TEST_CASE("torch's variables for the store and for state D are known") {
  CHECK(parse({}, {{"TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1"}}).store == options::StoreHost::worker);
  CHECK(parse({}, {{"TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "0"}}).store == options::StoreHost::agent);
  CHECK(parse({"--store", "agent"}, {{"TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1"}}).store ==
        options::StoreHost::agent);
  const auto notices = parse({}, {{"TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT", "60"}}).notices;
  REQUIRE(notices.size() == 1);
  CHECK(notices[0].what == "TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT has no effect");
  CHECK(notices[0].hint == "--hang-timeout finds ranks that wait in state D too");
}

TEST_CASE("times and numbers below nothing are refused") {
  CHECK(error_for({"--shutdown-timeout=-1"}) ==
        "--shutdown-timeout is not a time: '-1' | give seconds, or a number with ms, s, m or h, as in 90s");
  CHECK(error_for({}, {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "soon"}}) ==
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT is not a time: 'soon' | give seconds, or a number with ms, s, m or "
        "h, as in "
        "90s");
  CHECK(error_for({"--join-timeout=0"}) ==
        "--join-timeout leaves no time to join | give a time above 0, as in 10m");
  CHECK(error_for({"--max-restarts=-1"}) ==
        "--max-restarts is not a number of restarts: '-1' | give 0 or more");
  CHECK(error_for({"--node-rank=first"}) ==
        "--node-rank is not a node rank: 'first' | node ranks start at 0");
  CHECK(error_for({"--node_rank="}) ==
        "--node-rank has no value | the variable that should give it may not be set: set it, or leave the "
        "option "
        "out");
  CHECK(error_for({"--nproc-per-node="}).starts_with("--nproc-per-node has no value | "));
  CHECK(error_for({"--master-port=65536"}) ==
        "--master-port is not a port: '65536' | give a number up to 65535; 0 means a free port");
}

TEST_CASE("the restart policy and its options have defaults and are read") {
  const options::RestartOptions none = parse({}).restarts;
  CHECK(none.rule == by_default(options::RestartRule::progress));
  CHECK(none.min_progress == by_default(Milliseconds{300000}));
  CHECK(none.no_restart_on.value.empty());
  CHECK(none.backoff == by_default(Milliseconds{0}));
  const options::Options given = parse({"--max-restarts=3", "--restart-policy=always", "--min-progress=90s",
                                        "--no-restart-on=64,3", "--restart-backoff=5s"},
                                       {});
  CHECK(given.restarts.rule == sourced(options::RestartRule::always, "--restart-policy"));
  CHECK(given.restarts.min_progress == sourced(Milliseconds{90000}, "--min-progress"));
  CHECK(given.restarts.no_restart_on == sourced(std::vector<int>{3, 64}, "--no-restart-on"));
  CHECK(given.restarts.backoff == sourced(Milliseconds{5000}, "--restart-backoff"));
  CHECK(parse({}, {{"DDPRUN_RESTART_POLICY", "always"}}).restarts.rule.origin == "DDPRUN_RESTART_POLICY");
}

TEST_CASE("the policy never is no restarts, whatever their number") {
  CHECK(parse({"--max-restarts=3", "--restart-policy=never"}).max_restarts == sourced(0, "--restart-policy"));
}

TEST_CASE("options of checkpoints need memory for them, and local and shared folders are absolute") {
  const auto options = parse({"--checkpoint-memory=40G", "--checkpoint-flush=/all",
                              "--checkpoint-flush-every=30m", "--checkpoint-rate=2M", "--checkpoint-keep"});
  CHECK(options.checkpoint.memory->value == std::uint64_t{40} << 30);
  CHECK(options.checkpoint.folder == "/dev/shm");
  CHECK(options.checkpoint.rate == 2097152);
  CHECK(options.checkpoint.flush == "/all");
  CHECK(options.checkpoint.flush_every == Milliseconds{1800000});
  CHECK(options.checkpoint.keep);
  const std::string memory = " requires --checkpoint-memory | add --checkpoint-memory SIZE, as in 40G";
  CHECK(error_for({"--checkpoint-folder=/local"}) == "--checkpoint-folder" + memory);
  CHECK(error_for({"--checkpoint-rate=2M"}) == "--checkpoint-rate" + memory);
  CHECK(error_for({"--checkpoint-flush=/all"}) == "--checkpoint-flush" + memory);
  CHECK(error_for({"--checkpoint-keep"}) == "--checkpoint-keep" + memory);
  CHECK(error_for({"--checkpoint-memory=40G", "--checkpoint-flush-every=5m"}) ==
        "--checkpoint-flush-every requires --checkpoint-flush | add --checkpoint-flush FOLDER");
  CHECK(error_for({"--checkpoint-memory=40G", "--checkpoint-folder=local"}) ==
        "--checkpoint-folder needs an absolute path | name a folder that every node has for itself");
  CHECK(error_for({"--checkpoint-memory=40G", "--checkpoint-flush=all"}) ==
        "--checkpoint-flush needs an absolute path | name a folder that all nodes share");
  CHECK(error_for({"--checkpoint-memory=40G", "--checkpoint-flush=/all", "--checkpoint-flush-every=10ms"}) ==
        "--checkpoint-flush-every is below one second | give 1s or more, as in 30m");
}

TEST_CASE("a restart option without effect is said to have none") {
  const auto notice = [](const std::vector<std::string>& arguments) {
    const options::Options options = parse(arguments);
    return options.notices.empty() ? "" : options.notices[0].what + " | " + options.notices[0].hint;
  };
  CHECK(notice({"--restart-backoff=5s"}).empty());
  Advice advice;
  parse_command_line({"--restart-backoff=5s", "--standby", "train.py"}, {}, {}, &advice);
  REQUIRE(advice.warnings.size() == 2);
  CHECK(advice.warnings[0].what ==
        "--restart-backoff has no effect: no restarts are asked for (--max-restarts)");
  CHECK(advice.warnings[1].what == "--standby has no effect: no restarts are asked for (--max-restarts)");
  CHECK(advice.warnings[1].hint == "add --max-restarts N");
  CHECK(parse({}, {{"DDPRUN_RESTART_BACKOFF", "5s"}}).notices[0].hint ==
        "no restarts are asked for (--max-restarts)");
  CHECK(notice({"--max-restarts=3", "--restart-policy=always", "--min-progress=1m"}) ==
        "--min-progress has no effect | --restart-policy always restarts without progress too");
  CHECK(notice({"--max-restarts=3", "--restart-policy=never"}).empty());
  CHECK(
      notice({"--max-restarts=3", "--min-progress=1m", "--restart-backoff=5s", "--no-restart-on=3"}).empty());
}

TEST_CASE("restart options that cannot be are refused") {
  CHECK(error_for({"--restart-policy=sometimes"}) ==
        "--restart-policy is not one of always, progress, never: 'sometimes' | give one of them");
  CHECK(error_for({"--restart-policy=nver"}) ==
        "--restart-policy is not one of always, progress, never: 'nver' | did you mean never?");
  CHECK(error_for({"--min-progress=0"}) ==
        "--min-progress of 0 counts every attempt as progress | give a time above 0, as in 10m, or "
        "--restart-policy always");
  CHECK(error_for({"--restart-backoff=2m"}) ==
        "--restart-backoff is above 1m, the longest wait before a restart | give the first wait, which "
        "doubles up to 1m, as in 5s");
  CHECK(error_for({"--restart-backoff=soon"}).starts_with("--restart-backoff is not a time: 'soon' | "));
  CHECK(error_for({"--no-restart-on=256"})
            .starts_with("--no-restart-on is not a list of exit codes: '256' | "));
}

TEST_CASE("a rendezvous configuration sets how long to wait") {
  CHECK(parse({"--rdzv-conf='join_timeout=5,timeout=7'"}).join_timeout.value == Milliseconds{5000});
  CHECK(parse({"--rdzv-conf=timeout=1200"}).join_timeout ==
        sourced(Milliseconds{1200000}, "--rdzv-conf timeout"));
  CHECK(parse({"--rdzv-conf=join_timeout=5", "--join-timeout=9"}).join_timeout ==
        sourced(Milliseconds{9000}, "--join-timeout"));
  CHECK(
      notice_of(parse({"--rdzv-conf=is_host=1"})) ==
      "is_host in --rdzv-conf has no effect | ddprun chooses the rendezvous host and its time limits itself");
  CHECK(error_for({"--rdzv-conf=join_timeout=never"}) ==
        "--rdzv-conf has a join_timeout that is not a time: 'never' | give seconds above 0");
}

TEST_CASE("rendezvous backends are static and c10d") {
  for (const char* backend : {"static", "c10d"}) {
    CHECK(notice_of(parse({"--rdzv-backend", backend})) ==
          "--rdzv-backend has no effect | static and c10d both mean ddprun's own rendezvous");
  }
  CHECK(error_for({"--rdzv-backend=etcd-v2"}) ==
        "--rdzv-backend etcd-v2 is not supported | leave it out: ddprun has its own rendezvous and needs no "
        "etcd "
        "server");
  CHECK(error_for({"--rdzv-backend=zeus"}) ==
        "--rdzv-backend is not known: 'zeus' | leave it out, or give static or "
        "c10d; both mean ddprun's own rendezvous");
}

TEST_CASE("looking first") {
  CHECK(parse({"--dry-run"}).dry_run == options::DryRun::text);
  CHECK(parse({"--dry-run=json"}).dry_run == options::DryRun::json);
  CHECK(parse({"--dry-run=env"}).dry_run == options::DryRun::env);
  CHECK(parse({"--snapshot=s.json"}).dry_run == options::DryRun::text);
  CHECK(parse({"--snapshot=s.json", "--dry-run=json"}).dry_run == options::DryRun::json);
  CHECK(parse({"-v"}).verbose);
  CHECK(parse({"-q"}).quiet);
  CHECK(error_for({"--dry-run=jason"}) ==
        "--dry-run is not one of text, json, env, svg: 'jason' | did you mean json?");
  CHECK(error_for({"--dry-run=yes"}) ==
        "--dry-run is not one of text, json, env, svg: 'yes' | give one of them");
  CHECK(error_for({"-v", "-q"}) == "--verbose and --quiet contradict each other | leave out one of them");
  CHECK(error_for({"--capture=a", "--snapshot=b"}) ==
        "--capture and --snapshot contradict each other | leave out one of them");
  CHECK(error_for({"--capture="}) == "--capture names no file | give the path of a file");
}

TEST_CASE("standby interpreters are for all workers of a node or for some") {
  CHECK(parse({"--standby"}).restarts.standbys == SIZE_MAX);
  CHECK(parse({"--standby=on"}).restarts.standby.value);
  CHECK_FALSE(parse({"--standby=off"}).restarts.standby.value);
  CHECK(parse({"--standby=4"}).restarts.standby.value);
  CHECK(parse({"--standby=4"}).restarts.standbys == 4);
  CHECK(error_for({"--standby=0"}) ==
        "--standby is not a number of interpreters: '0' | give on, off, or how many on each node, 1 or more");
}

TEST_CASE("the store is served by ddprun or by rank 0") {
  CHECK(parse({"--store=worker"}).store == options::StoreHost::worker);
  CHECK(parse({"--store=agent"}).store == options::StoreHost::agent);
  using Form = options::StoreTree::Form;
  CHECK(parse({"--store=agent"}).store_tree.form == Form::automatic);
  CHECK(parse({"--store=flat"}).store_tree.form == Form::flat);
  CHECK(parse({"--store=tree"}).store_tree.fan_out == 32);
  CHECK(parse({"--store=tree:8"}).store_tree.form == Form::tree);
  CHECK(parse({"--store=tree:8"}).store_tree.fan_out == 8);
  for (const std::string number : {"1", "1025", "", "x"})
    CHECK(error_for({"--store=tree:" + number}) ==
          "--store is not a store: 'tree:" + number + "' | give tree or tree:N with N from 2 to 1024");
  CHECK(error_for({"--store=agents"}) ==
        "--store is not one of agent, worker, flat, tree: 'agents' | did you mean agent?");
  CHECK(parse({"--key-file=k"}).key_file == "k");
  CHECK(parse({"--site", "./ours.json"}).site == "./ours.json");
  CHECK(parse({"--site=none"}).site == "none");
  CHECK(error_for({"--site="}) ==
        "--site names no site | give a profile's name, the path of its file, or none");
  CHECK(parse({"--local-addr=10.0.0.1"}).local_address == sourced(std::string("10.0.0.1"), "--local-addr"));
}

TEST_CASE("how nodes meet that cannot know each other's names") {
  CHECK(parse({}).discovery == options::Discovery::automatic);
  CHECK(parse({"--rdzv=auto"}).discovery == options::Discovery::automatic);
  CHECK(parse({"--rdzv=pmi"}).discovery == options::Discovery::pmi);
  CHECK(parse({"--rdzv", "file", "--rdzv-dir=/scratch"}).discovery == options::Discovery::file);
  CHECK(parse({"--rdzv", "file", "--rdzv-dir=/scratch"}).rendezvous_directory == "/scratch");
  CHECK(error_for({"--rdzv=files"}) == "--rdzv is not one of auto, pmi, file: 'files' | did you mean file?");
  CHECK(error_for({"--rdzv-dir="}) == "--rdzv-dir names no folder | give the path of a folder");
}

TEST_CASE("what has nothing to act on is checked and noted") {
  CHECK(notice_of(parse({"--monitor-interval=5"})) ==
        "--monitor-interval has no effect | ddprun is notified when a worker ends and does not poll");
  CHECK(notice_of(parse({"--start-method=fork"})) ==
        "--start-method has no effect | every worker is a separate process");
  CHECK(parse({"--start-method=spawn", "--event-log-handler=null"}).notices.empty());
  CHECK(error_for({"--monitor-interval=often"}) ==
        "--monitor-interval is not a number of seconds: 'often' | leave it out, or give one");
  CHECK(error_for({"--start-method=forks"}) ==
        "--start-method is not one of spawn, fork, forkserver: 'forks' | did you mean fork?");
}

TEST_CASE("an elastic number of nodes, and what belongs to it") {
  const options::Options two_to_four =
      parse({"--nnodes=2:4", "--grow=at-restart", "--rdzv-conf=last_call_timeout=5"});
  CHECK(two_to_four.place.nodes->value == 4);
  CHECK(two_to_four.least_nodes->value == 2);
  CHECK(two_to_four.grow.value == options::Grow::at_restart);
  CHECK(two_to_four.last_call.value == Milliseconds{5000});
  CHECK_FALSE(parse({"--nnodes=4:4"}).least_nodes);
  CHECK_FALSE(parse({"--nnodes=1:4", "--nnodes=4"}).least_nodes);
  CHECK(error_for({"--nnodes=4:2"}) == "--nnodes has MIN above MAX: '4:2' | write 2:4");
  CHECK(error_for({"--nnodes=2", "--grow=now"}) ==
        "--grow requires --nnodes MIN:MAX or --spares | the number of nodes is fixed otherwise");
  CHECK(
      error_for({"--spares=2", "--domain-size=2"}) ==
      "--domain-size requires --order, and --nnodes MIN:MAX or --spares | all nodes take part otherwise, in "
      "the scheduler's order");
  CHECK(
      error_for({"--nnodes=4", "--order=network", "--domain-size=2"}).starts_with("--domain-size requires"));
  CHECK(parse({"--spares=2", "--order=network", "--domain-size=2"}).domain_size.value == 2);
  CHECK(options::order_file(parse({"--order=network"})).empty());
  CHECK(options::order_file(parse({"--order=hosts.txt"})) == "hosts.txt");
  CHECK(two_to_four.host_timeout.value == Milliseconds{10000});  // 20 s where a lost node ends the job
  CHECK(parse({"--nnodes=4"}).host_timeout.value == Milliseconds{20000});
  const auto spare = parse({"--nnodes=4", "--spares=1", "--host-timeout=30"});
  CHECK(spare.spares == sourced(1, "--spares"));
  CHECK(spare.host_timeout.value == Milliseconds{30000});
  CHECK(error_for({"--nnodes=2:3", "--spares=2"}) ==
        "--spares 2 leaves 1 of 3 nodes (--nnodes), and 2 are needed | give fewer spares, or more nodes");
  CHECK(error_for({"--nnodes=1:2", "--grow=soon"}) ==
        "--grow is not one of now, at-restart, never: 'soon' | give one of them");
  CHECK(error_for({"--nnodes=1:2", "--host-timeout=4s"}) ==
        "--host-timeout is too short for a job that continues without a lost node: '4 s' | give 7 s or more: "
        "a node that is cut off stops its workers in that time");
  CHECK(
      error_for({"--nnodes=1:2", "--join-timeout=5", "--rdzv-conf=last_call_timeout=60"}) ==
      "--rdzv-conf last_call_timeout is 60 s, longer than --join-timeout 5 s | give a shorter one: it counts "
      "within the join timeout");
  CHECK(error_for({"--nnodes=1:2", "--rdzv-conf=last_call_timeout=0"}) ==
        "--rdzv-conf has a last_call_timeout that is not a time: '0' | give seconds above 0");
}

TEST_CASE("what is not supported is refused with the way around it") {
  struct Case {
    Words words;
    const char* text;
  };
  for (const Case& each : {
           Case{{"--logs-specs=mine"},
                "--logs-specs is not supported yet | leave it out: ddprun loads no Python plug-ins"},
       }) {
    CHECK(error_for(each.words) == each.text);
  }
}

TEST_CASE("all that is not supported on a line is refused at once") {
  CHECK(
      error_for({"--logs-specs=mine", "--rdzv-backend=etcd"}) ==
      "--rdzv-backend, --logs-specs are not supported yet | --rdzv-backend: leave it out: ddprun has its own "
      "rendezvous and needs no etcd server\nhint: --logs-specs: leave it out: ddprun loads no Python "
      "plug-ins");
}

TEST_CASE("torch.distributed.launch's way to pass the local rank") {
  for (const char* word : {"--use-env", "--use_env"}) {
    CHECK_FALSE(parse({word}).local_rank_argument);
    CHECK(notice_of(parse({word})) ==
          "--use-env has no effect | LOCAL_RANK is always set in the environment of the workers");
  }
  CHECK(parse({"--no-use-env"}).local_rank_argument);
  CHECK(error_for({"--no_use_env", "--use_env"}) ==
        "--use-env and --no-use-env contradict each other | leave out one of them");
  CHECK(error_for({"--no-use-env", "--no-python"}) ==
        "--no-python and --no-use-env contradict each other | leave out --no-use-env: a program reads "
        "LOCAL_RANK; ${local_rank} in its arguments is replaced by the number");
}

TEST_CASE("choices of streams, ranks and modes are checked") {
  CHECK(error_for({"--tee=11"}).starts_with("--tee is not a choice of streams: '11'"));
  CHECK(error_for({"--local-ranks-filter=a"})
            .starts_with("--local-ranks-filter is not a list of local ranks: 'a'"));
  CHECK(error_for({"--numa-binding=nodes"}) ==
        "--numa-binding is not one of node, socket, exclusive, core-complex: 'nodes' | did you mean node?");
}

TEST_CASE("options about files need some, and one folder") {
  CHECK(error_for({"--log-rotate=1M"}) ==
        "--log-rotate requires log files, but none are written | add --logs FOLDER, or leave it out");
  CHECK(error_for({"--logs=a", "--log_dir=b"}) ==
        "--logs and --log-dir contradict each other | leave out one of them");
  CHECK(parse({"--log-rotate=1M:2", "-r3"}).output.rotation.kept == 2);
  CHECK(error_for({"--log-compress=zstd"}) ==
        "--log-compress requires log files, but none are written | add --logs FOLDER, or leave it out");
  CHECK(parse({"--log-compress=zstd", "--logs=a"}).output.compress);
  CHECK(error_for({"--log-compress=gzip", "--logs=a"}) ==
        "--log-compress is neither zstd nor none: 'gzip' | zstd is the only format");
}

TEST_CASE("folding is chosen by word, and a rate is a size") {
  CHECK(parse({}).output.fold == output::Folding::automatic);
  CHECK(parse({"--fold"}).output.fold == output::Folding::on);
  CHECK(parse({"--fold=off"}).output.fold == output::Folding::off);
  CHECK(error_for({"--fold=no"}) == "--fold is neither on nor off: 'no' | --fold alone means on");
  CHECK(parse({"--output-rate=1M"}).output.rate == std::uint64_t{1} << 20);
  CHECK(error_for({"--output-rate=10"}) ==
        "--output-rate is not a size: '10' | give bytes per second, 1k or more, as in 1M");
}

TEST_CASE("torchrun's variable for the prefix counts where no option does") {
  const char* const name = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE";
  CHECK(parse({}, {{name, "[$rank]"}}).output.prefix_template.value == "[$rank]");
  CHECK(parse({"--log-line-prefix-template=x"}, {{name, "y"}}).output.prefix_template.value == "x");
}

TEST_CASE("a label needs no text") {
  CHECK(parse({"--label"}).output.label->value.empty());
  CHECK(parse({"--label={rank}:"}).output.label->value == "{rank}:");
  CHECK(error_for({"--label={pid}"}).starts_with("--label has an unknown macro: '{pid}'"));
}

TEST_CASE("asking for what happens anyway passes") {
  const options::Options options =
      parse({"--nnodes=2:2", "--log-dir=/dev/null", "--redirects=0", "-t0:0,1:0", "--local-ranks-filter=",
             "--duplicate-stdout-filters=", "--duplicate-stderr-filters=", "--log-line-prefix-template="});
  CHECK(options.place.nodes->value == 2);
  CHECK(options.notices.empty());
}

TEST_CASE("help, version and completion print and need no script") {
  CHECK(printed({"--help"}).text == render_help());
  CHECK(printed({"-h"}, {{"PET_NNODES", "broken"}}).text == render_help());
  CHECK(printed({"--version"}).text.starts_with("ddprun " DDPRUN_VERSION));
  CHECK(printed({"--print-completion=zsh"}).text == render_completion("zsh"));
  CHECK(printed({"--help"}).exit_code == 0);
  CHECK(printed({"--help-all"}).text == render_help_all());
  CHECK(error_for({"--print-completion=powershell"}) ==
        "--print-completion is not one of bash, zsh, fish, tcsh: 'powershell' | give one of them");
}

TEST_CASE("an option after the script is the script's") {
  const auto options =
      std::get<options::Options>(parse_command_line({"train.py", "--help", "--nnodes", "x"}, {}));
  CHECK(options.command == Words{"train.py", "--help", "--nnodes", "x"});
}

TEST_CASE("binding is asked for in torchrun's words and in our own") {
  CHECK(parse({"train.py"}).bind == options::BindChoice{});
  CHECK(parse({"--numa-binding=core-complex", "train.py"}).bind.mode == options::BindMode::core_complex);
  CHECK(parse({"--bind", "none", "train.py"}).bind.mode == options::BindMode::none);
  const options::Options options =
      parse({"--bind=core:0-3:4-7", "--membind", "bind", "--nic=auto", "--gpus-per-worker", "2",
             "--omp-places", "--show-binding", "train.py"});
  CHECK(options.bind.lists.size() == 2);
  CHECK(options.bind.whole_cores);
  CHECK(options.memory_bind.value == options::MemoryBind::bind);
  CHECK(options.nic.value);
  CHECK(options.gpus_per_worker.value == 2);
  CHECK(options.omp_places);
  CHECK(options.show_binding);
  CHECK(!parse({"--nic=none", "train.py"}).nic.value);
  CHECK(error_for({"--gpus-per-worker=0"}) ==
        "--gpus-per-worker is not a number of GPUs: '0' | give 1 or more");
  CHECK(error_for({"--membind=local"}) ==
        "--membind is not one of auto, preferred, bind, none: 'local' | give one of them");
}

TEST_CASE("a node that is described needs no script, and only it has GPUs to count") {
  const auto alone = [](const Words& words) {
    return std::get<options::Options>(parse_command_line(words, {}));
  };
  const options::Options options = alone({"--dry-run", "--topology", "node.xml", "--gpus", "4"});
  CHECK(options.topology == "node.xml");
  CHECK(options.gpus->value == 4);
  CHECK(options.command.empty());
  CHECK(alone({"--dry-run=svg"}).dry_run == options::DryRun::svg);
  CHECK(alone({"--snapshot=s.json"}).command.empty());
  CHECK(usage_error_of([&] { alone({"--topology", "node.xml"}); }).starts_with("there is no script to run"));
  CHECK(error_for({"--gpus", "4", "train.py"}) ==
        "--gpus requires --topology: it sets the GPU count of the described node | --nproc-per-node sets the "
        "number of workers on each node (default: one per visible GPU)");
}

TEST_CASE("MASTER_PORT and MASTER_ADDR of the environment count where the command line is silent") {
  const facts::Environment exported{{"MASTER_PORT", "29600"}, {"MASTER_ADDR", "n1"}};
  const allocation::PlaceOptions place = parse({}, exported).place;
  CHECK(place.port == sourced(29600, "MASTER_PORT of the environment", Source::master_variable));
  CHECK(place.likely_address ==
        sourced(std::string("n1"), "MASTER_ADDR of the environment", Source::master_variable));
  CHECK_FALSE(place.address);
  const allocation::PlaceOptions given = parse({"--rdzv-endpoint", "n2:29700"}, exported).place;
  CHECK(given.port == sourced(29700, "--rdzv-endpoint"));
  CHECK_FALSE(given.likely_address);
  const options::Options alone = parse({"--standalone"}, exported);
  CHECK_FALSE(alone.place.port);
  CHECK(notice_of(alone) ==
        "MASTER_PORT of the environment has no effect | --standalone uses this host only");
}

TEST_CASE("torchrun's LOGLEVEL makes ddprun tell what it does") {
  CHECK(parse({}, {{"LOGLEVEL", "INFO"}}).verbose);
  CHECK(parse({}, {{"LOGLEVEL", "debug"}}).verbose);
  CHECK_FALSE(parse({}, {{"LOGLEVEL", "WARNING"}}).verbose);
  CHECK_FALSE(parse({"--quiet"}, {{"LOGLEVEL", "INFO"}}).verbose);
}
