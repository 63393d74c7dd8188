#include "facts/step_options.hpp"

#include "base/text.hpp"
#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::facts;

namespace {

StepOptions parse(const std::string& words, const Environment& environment = {},
                  const std::string& configuration = "") {
  return parse_step_options(split_words(words), {"--spares", "1", "train.py", "-K"}, environment,
                            configuration);
}

}  // namespace

TEST_CASE("an srun without options ends its step with a node that fails and with nothing else") {
  CHECK(parse("srun -N3 ddprun --spares 1 train.py -K") == StepOptions{false, false, 0});
}

TEST_CASE("options of srun are read in all ways that srun takes them") {
  for (const char* text : {"--no-kill", "--no-kill=set", "-k", "-lk", "--no-k", "-N 3 -k"}) {
    CAPTURE(text);
    CHECK(parse(std::string("srun ") + text + " ddprun --spares 1 train.py -K") ==
          StepOptions{true, false, 0});
  }
  for (const char* text : {"--no-kill=off", "-koff", "--no-kill --no-kill=off"}) {
    CAPTURE(text);
    CHECK_FALSE(parse(std::string("srun ") + text + " ddprun --spares 1 train.py -K").no_kill);
  }
  for (const char* text : {"-K", "-K1", "--kill-on-bad-exit", "--kill-on-bad-exit=1", "-uK", "-K0 -K"}) {
    CAPTURE(text);
    CHECK(parse(std::string("srun ") + text + " ddprun --spares 1 train.py -K").kill_on_bad_exit);
  }
  for (const char* text : {"-K0", "--kill-on-bad-exit=0", "-N3"}) {
    CAPTURE(text);
    CHECK_FALSE(parse(std::string("srun ") + text + " ddprun --spares 1 train.py -K").kill_on_bad_exit);
  }
  for (const char* text : {"-W30", "-W 30", "--wait=30", "--wait 30", "-uW 30"}) {
    CAPTURE(text);
    CHECK(parse(std::string("srun ") + text + " ddprun --spares 1 train.py -K").wait == 30);
  }
}

TEST_CASE("the command line counts before srun's variables, and those before slurm.conf") {
  const Environment variables{{"SLURM_NO_KILL", "set"}, {"SLURM_KILL_BAD_EXIT", "1"}, {"SLURM_WAIT", "20"}};
  const std::string configuration =
      "# WaitTime=1\nClusterName=x\nkillonbadexit=1 # for all\nWaitTime=10\n=\n";
  const std::string program = " ddprun --spares 1 train.py -K";
  CHECK(parse("srun" + program, {}, configuration) == StepOptions{false, true, 10});
  CHECK(parse("srun" + program, variables, configuration) == StepOptions{true, true, 20});
  CHECK(parse("srun --no-kill=off -K0 -W0" + program, variables, configuration) ==
        StepOptions{false, false, 0});
  CHECK(parse("srun" + program, {{"SLURM_KILL_BAD_EXIT", "0"}, {"SLURM_WAIT", "0"}}, configuration) ==
        StepOptions{});
}

TEST_CASE("the arguments of ddprun are not those of srun, but those of a script between them are") {
  CHECK(parse("srun ddprun --spares 1 train.py -K") == StepOptions{});
  CHECK(parse("srun -k job.sh") == StepOptions{true, false, 0});
  CHECK(parse("srun job.sh -W 5") == StepOptions{false, false, 5});
  CHECK(parse("srun") == StepOptions{});
  CHECK(parse("") == StepOptions{});
}

TEST_CASE("the socket that listens on a port is found in the kernel's table") {
  const std::string table =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
      "   0: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 1 1 0 20\n"
      "   1: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 812 1 0 "
      "100\n"
      "   2: 00000000000000000000000000000000:0050 00000000000000000000000000000000:0000 0A "
      "00000000:00000000 "
      "00:00000000 00000000     0        0 813 1 0 100\n";
  CHECK(parse_listener_inode(table, 8080) == 812);
  CHECK(parse_listener_inode(table, 80) == 813);
  CHECK_FALSE(parse_listener_inode(table, 50000));
  CHECK_FALSE(parse_listener_inode("", 80));
}
