#include "selflaunch/remote_launcher.hpp"

#include "base/text.hpp"
#include "catch.hpp"
#include "error_text.hpp"
#include "plan_node.hpp"

using namespace ddprun;
using namespace ddprun::selflaunch;

namespace {

options::Options with_args(const std::string& text) {
  options::Options options;
  options.given["launcher-args"] = sourced(text, "--launcher-args");
  return options;
}

facts::Snapshot on_n1(facts::Environment environment, const std::string& mpiexec = {}) {
  facts::Snapshot snapshot;
  snapshot.host.name = "n1";
  snapshot.host.allowed_cpus = {0, 1};
  snapshot.environment = std::move(environment);
  snapshot.arguments = {"train.py"};
  for (const char* program : {"ddprun", "srun", "ssh", "pbsdsh", "pbs_tmrsh", "flux", "blaunch", "mpiexec"})
    snapshot.programs[program] = {facts::ProgramKind::executable, std::string("/bin/") + program, {}};
  snapshot.programs["mpiexec"].version = mpiexec;
  return snapshot;
}

const facts::Environment k_slurm{
    {"SLURM_JOB_ID", "29"}, {"SLURM_JOB_NODELIST", "n[1-2]"}, {"ENVIRONMENT", "BATCH"}};

std::string last_command(const facts::Snapshot& snapshot, options::Options options,
                         const std::string& launcher) {
  options.remote_launcher = {launcher, "--launcher"};
  if (launcher != "srun") options.place.hosts = sourced(std::vector<std::string>{"n1", "n2"}, "--hosts");
  const auto plan = test::plan_self_launch(snapshot, options);
  return shell_quote(plan->commands.back().words);
}

std::string refusal(const std::string& launcher, const std::string& text) {
  return usage_error_of([&] { read_launcher_args(with_args(text), launcher); });
}

}  // namespace

TEST_CASE("--launcher-args is split as by a shell and comes where the remote launcher reads it") {
  CHECK(last_command(on_n1(k_slurm), with_args("--mpi=pmix --export=ALL,X='a b'"), "srun") ==
        "srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpu-bind=none --mpi=none --export=ALL "
        "--kill-on-bad-exit=1 "
        "--mpi=pmix '--export=ALL,X=a b' --input=0 /bin/ddprun train.py");
  CHECK(last_command(on_n1({}, "HYDRA build details"), with_args("-genv X 1"), "mpiexec") ==
        "mpiexec -hosts n1,n2 -ppn 1 -n 2 -genv X 1 /bin/ddprun train.py");
  CHECK(last_command(on_n1({}, "mpiexec (OpenRTE) 4.1.4"), with_args("--mca btl tcp,self"), "mpiexec")
            .starts_with(
                "mpiexec -n 2 --map-by ppr:1:node --bind-to none -x DDPRUN_FRONT_END -x DDPRUN_FRONT_END_KEY "
                "--mca btl tcp,self /bin/ddprun --started-by"));
  CHECK(last_command(on_n1({}), with_args("-p 2222 -o ConnectTimeout=60"), "ssh")
            .starts_with("ssh -T -x -p 2222 -o ConnectTimeout=60 -o BatchMode=yes"));
}

TEST_CASE("what ddprun sets itself is refused with the reason") {
  const std::string hint =
      " | leave it out; --nnodes limits the nodes, --nproc-per-node sets the workers, and --launcher none "
      "and your own srun start ddprun without it";
  CHECK(
      refusal("srun", "--mpi=none -n4") ==
      "--launcher-args cannot have '-n4': ddprun sets -n of srun itself: it starts one ddprun on each node" +
          hint);
  CHECK(refusal("srun", "--output=x") ==
        "--launcher-args cannot have '--output=x': ddprun sets --output of srun itself: it reads the output "
        "of every "
        "node and sends input to rank 0" +
            hint);
  CHECK(refusal("srun", "--wait=5") ==
        "--launcher-args cannot have '--wait=5': ddprun sets --wait of srun itself: it decides how long the "
        "other "
        "nodes run when one ends" +
            hint);
  CHECK(refusal("srun", "--export NONE") ==
        "--launcher-args cannot have '--export': srun --export=NONE does not pass on the variables that the "
        "agents "
        "need: begin it with ALL" +
            hint);
  CHECK(refusal("srun", "--mpi=none : -G1")
            .starts_with("--launcher-args cannot have ':': : ends the options of srun"));
  for (const char* text : {"-N 2", "--nodes=2", "--ntask=3", "-W0", "-l"})
    CHECK(refusal("srun", text) != "no error");
  for (const char* text : {"-n 4", "-np 4", "-ppn 2", "--hostfile x", "-prepend-rank", "--map-by core"})
    CHECK(refusal("mpiexec", text) != "no error");
  for (const char* text : {"-n", "-tt", "-M", "-oControlPath=x", "-o 'RemoteCommand date'"})
    CHECK(refusal("ssh", text) != "no error");
  for (const char* text : {"-n 0", "-o"}) CHECK(refusal("pbsdsh", text) != "no error");
  CHECK(refusal("ssh", "n3") ==
        "--launcher-args is no option: ssh would run 'n3' instead of ddprun | as in --launcher-args "
        "'--mpi=pmix "
        "--export=ALL,X=1'");
}

TEST_CASE("options that leave ddprun alone are passed") {
  for (const char* text : {"--mpi=pmix", "--export=ALL,X=1", "--cpu-bind=cores", "--mem=0", "-c 4",
                           "--network=x", "--exclusive", "-u", "--no-allocate"})
    CHECK(refusal("srun", text) == "no error");
  for (const char* text : {"-genv X 1", "--mca btl tcp", "-launcher ssh", "-iface eth0", "--cpu-bind depth"})
    CHECK(refusal("mpiexec", text) == "no error");
  for (const char* text : {"-p 22", "-o ConnectTimeout=5", "-i key", "-v", "-4"})
    CHECK(refusal("ssh", text) == "no error");
  CHECK(read_launcher_args({}, "srun").value.empty());
}

TEST_CASE("where another launcher has started ddprun, --launcher-args is said to have no effect") {
  options::Options options = with_args("--mpi=none");
  options.command = {"true"};
  options.no_python = true;
  facts::Snapshot snapshot = on_n1({});
  CHECK(
      test::propose_node(snapshot, options).notices ==
      std::vector<allocation::Notice>{{"--launcher-args has no effect: ddprun starts no remote launcher here",
                                       "give these options to the launcher that starts ddprun"}});
  snapshot.environment["DDPRUN_REMOTE_LAUNCHER"] = "srun";
  CHECK(test::propose_node(snapshot, options).notices.empty());
}
