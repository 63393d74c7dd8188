// What people write where the script belongs, or behind it: the answer to each.
#include "command_line/mistaken_command.hpp"

#include "catch.hpp"
#include "command_line/command_line.hpp"
#include "error_text.hpp"

using namespace ddprun;
using namespace ddprun::command_line;

namespace {

using Words = std::vector<std::string>;

std::string error_for(const Words& words) {
  return usage_error_of([&] { parse_command_line(words, {}); });
}

Advice advice_for(const Words& words) {
  Advice advice;
  parse_command_line(words, {}, {}, &advice);
  return advice;
}

std::string warning_for(const Words& words) {
  const Advice advice = advice_for(words);
  if (advice.warnings.size() != 1) return std::to_string(advice.warnings.size()) + " warnings";
  return advice.warnings.front().what + " | " + advice.warnings.front().hint;
}

struct Typed {
  Words words;
  std::string answer;
};

}  // namespace

TEST_CASE("another launcher as the script is refused with the line to write") {
  const std::vector<Typed> table{
      {{"torchrun", "--nproc-per-node", "2", "train.py"},
       "every worker would start torchrun and so a job of its own | ddprun replaces torchrun: write ddprun "
       "--nproc-per-node 2 train.py"},
      {{"--bind", "none", "/opt/venv/bin/torchrun", "train.py"},
       "every worker would start torchrun and so a job of its own | ddprun replaces torchrun: write ddprun "
       "--bind "
       "none train.py"},
      {{"-m", "torch.distributed.run", "--nnodes", "1", "train.py"},
       "every worker would start torch.distributed.run and so a job of its own | ddprun replaces "
       "torch.distributed.run: write ddprun --nnodes 1 train.py"},
      {{"python", "-u", "-m", "torch.distributed.launch", "--nproc_per_node=2", "train.py"},
       "every worker would start torch.distributed.launch and so a job of its own | ddprun replaces "
       "torch.distributed.launch: write ddprun --no-use-env --nproc_per_node=2 train.py"},
      {{"accelerate", "launch", "--num_processes", "2", "train.py", "--lr", "1"},
       "every worker would start accelerate launch and so a job of its own | ddprun replaces accelerate "
       "launch: "
       "write ddprun train.py --lr 1; --nproc-per-node and --nnodes set the numbers of workers and nodes"},
      {{"deepspeed", "--num_gpus=2", "train.py", "--deepspeed", "ds.json"},
       "every worker would start deepspeed and so a job of its own | ddprun replaces deepspeed: write ddprun "
       "train.py --deepspeed ds.json; --nproc-per-node and --nnodes set the numbers of workers and nodes"},
      {{"--label", "srun", "-N2", "python", "-u", "train.py", "a b"},
       "every worker would start srun and so a job of its own | srun starts ddprun: write srun -N2 ddprun "
       "--label "
       "train.py 'a b'"},
      {{"mpirun", "-np", "2", "train.py"},
       "every worker would start mpirun and so a job of its own | mpirun starts ddprun: write mpirun -np 2 "
       "ddprun "
       "train.py"},
      {{"mpirun", "-np", "2", "a.out"},
       "every worker would start mpirun and so a job of its own | mpirun starts ddprun: write mpirun -np 2 "
       "a.out "
       "ddprun SCRIPT"},
  };
  for (const auto& [words, answer] : table) CHECK(error_for(words) == answer);
}

TEST_CASE("programs that only look like another launcher run") {
  for (const Words& words :
       {Words{"accelerate", "env"}, Words{"torchrun.py"}, Words{"srun.sh"}, Words{"python", "torchrun"},
        Words{"python", "train.py", "-m", "torch.distributed.run"}, Words{"-m", "accelerate"},
        Words{"sh", "-c", "torchrun train.py"}})
    CHECK(error_for(words) == "no error");
}

TEST_CASE("a word that cannot be a script is refused with what to type") {
  const std::vector<Typed> table{
      {{""}, "the name of the script is empty | look for an unset variable on the command line"},
      {{"-"}, "- is no script: standard input is for the workers | write the script into a file"},
      {{"–nproc-per-node", "2", "train.py"},
       "–nproc-per-node begins with an en dash (U+2013) instead of hyphens | type it: --nproc-per-node"},
      {{"—nnodes=2", "train.py"},
       "—nnodes=2 begins with an em dash (U+2014) instead of hyphens | type it: --nnodes=2"},
      {{"−r", "3", "train.py"}, "−r begins with the minus sign U+2212 instead of hyphens | type it: -r"},
      {{"--nproc–per–node", "2", "train.py"},
       "unknown option --nproc–per–node | did you mean --nproc-per-node?"},
      {{"--timeline", "ev.jsonl", "x.html"},
       "unexpected argument x.html after --timeline ev.jsonl | the file to write follows -o: -o x.html"},
  };
  for (const auto& [words, answer] : table) CHECK(error_for(words) == answer);
}

TEST_CASE("where there is no such script, the hint says what was meant") {
  const std::vector<Typed> table{
      {{"status"}, "did you mean ddprun --status?"},
      {{"status", "1829"}, "did you mean ddprun --status 1829?"},
      {{"check"}, "did you mean ddprun --check?"},
      {{"help"}, "did you mean ddprun --help?"},
      {{"--quiet", "dry-run", "train.py"}, "did you mean ddprun --quiet --dry-run train.py?"},
      {{"run", "train.py"}, "ddprun has no subcommands: ddprun train.py"},
      {{"train.py --steps 1"},
       "in quotes it is one word, the name of a file; without them: ddprun train.py --steps 1"},
      {{"--hang-timeout", "5", "min", "train.py"}, "write the time as one word: --hang-timeout 5m"},
      {{"--join-timeout=90", "seconds", "train.py"}, "write the time as one word: --join-timeout 90s"},
      {{"--max-restarts", "5", "min"}, ""},
      {{"min"}, ""},
      {{"train.py"}, ""},
      {{"run"}, ""},
  };
  for (const auto& [words, hint] : table) {
    INFO(words.front());
    CHECK(advice_for(words).where_missing == hint);
  }
}

TEST_CASE("an option of ddprun behind the script is noticed, with the line to write") {
  CHECK(
      warning_for({"train.py", "--nproc-per-node", "2"}) ==
      "--nproc-per-node after train.py is an argument of the script and has no effect on ddprun | write it "
      "before "
      "the script: ddprun --nproc-per-node 2 train.py; if it is for the script, -- before train.py silences "
      "this notice");
  CHECK(
      warning_for({"--bind", "none", "train.py", "--lr", "1", "--nproc_per_node=2", "--max-restarts", "3"}) ==
      "--nproc_per_node, --max-restarts after train.py are arguments of the script and have no effect on "
      "ddprun | "
      "write them before the script: ddprun --bind none --nproc_per_node=2 --max-restarts 3 train.py --lr 1; "
      "if they are for the script, -- before train.py silences this notice");
}

TEST_CASE("a script's own argument with the name of an option is not noticed") {
  for (const Words& words : {
           Words{"--nproc-per-node", "2", "train.py", "--nproc-per-node", "2"},  // ddprun has one too
           Words{"--", "train.py", "--nproc-per-node", "2"},
           Words{"train.py", "--", "--nproc-per-node", "2"},
           Words{"train.py", "--output", "x", "--log-dir", "y", "--dry-run", "--launcher", "pytorch",
                 "--fold", "2"},
           Words{"train.py", "--nproc", "2", "-m", "--help"},
           Words{"sh", "-c", "ddprun --nnodes 2 train.py"},
       })
    CHECK(advice_for(words).warnings.empty());
}

TEST_CASE("an option that does nothing without another one is noticed") {
  CHECK(warning_for({"--on-hang", "stop", "train.py"}) ==
        "--on-hang has no effect without --hang-timeout or --exit-barrier-timeout | add --hang-timeout auto");
  CHECK(advice_for({"--on-hang", "stop", "--hang-timeout", "auto", "train.py"}).warnings.empty());
  CHECK(warning_for({"--stage-to", "/tmp", "train.py"}) ==
        "--stage-to has no effect without --stage | add --stage PATH");
  CHECK(warning_for({"--gpu-release-timeout", "20s", "train.py"}) ==
        "--gpu-release-timeout has no effect without --check | add --check=auto");
  CHECK(warning_for({"--metrics", "out.txt", "train.py"}) ==
        "--metrics writes out.txt, which Prometheus' textfile collector ignores | it reads files named "
        "*.prom: give "
        "the file such a name");
  CHECK(advice_for({"--metrics", "out.prom", "train.py"}).warnings.empty());
  CHECK(advice_for({"--metrics", "/dev/stdout", "train.py"}).warnings.empty());
  CHECK(error_for({"-o", "x.html", "train.py"}) ==
        "--output requires --timeline or --profile | add --timeline FILE or --profile TIME");
  CHECK(error_for({"--profile-every", "1h", "train.py"}) ==
        "--profile-every requires --logs | add --logs FOLDER");
  CHECK(error_for({"--profile", "10s", "4711", "-o", "run"}) ==
        "unexpected argument -o after --profile 4711 | give one job id or process id, and options before it");
}

TEST_CASE("options of other launchers are answered with ddprun's") {
  CHECK(error_for({"--restarts", "2", "train.py"}) ==
        "unknown option --restarts | did you mean --max-restarts?");
  CHECK(error_for({"--restart", "2", "train.py"}) ==
        "unexpected argument train.py after --restart 2 | give one job id or process id; --max-restarts N "
        "sets how often a failed job is restarted");
  CHECK(
      error_for({"--ngpus", "2", "train.py"}).starts_with("unknown option --ngpus | --nproc-per-node sets "));
  CHECK(error_for({"--export", "A=1", "train.py"}) ==
        "unknown option --export | leave it out: workers inherit the environment, so export the variable");
}
