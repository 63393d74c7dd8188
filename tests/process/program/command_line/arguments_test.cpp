#include "command_line/arguments.hpp"

#include "catch.hpp"
#include "error_text.hpp"

using namespace ddprun;
using namespace ddprun::command_line;

namespace {

using Words = std::vector<std::string>;

Arguments normalise(const Words& words) { return normalise_arguments(words, option_table()); }

std::string error_for(const Words& words) {
  return usage_error_of([&] { normalise(words); });
}

}  // namespace

TEST_CASE("the first word that is no option ends the options") {
  const Arguments arguments = normalise({"--nnodes", "2", "train.py", "--nnodes", "3", "--", "-x"});
  CHECK(arguments.options == Words{"--nnodes", "2"});
  CHECK(arguments.command == Words{"train.py", "--nnodes", "3", "--", "-x"});
  CHECK(normalise({"-"}).command == Words{"-"});
  CHECK(normalise({}).command.empty());
}

TEST_CASE("two dashes end the options and are dropped") {
  const Arguments arguments = normalise({"-m", "--", "--odd-name", "--", "x"});
  CHECK(arguments.options == Words{"--module"});
  CHECK(arguments.command == Words{"--odd-name", "--", "x"});
}

TEST_CASE("a value follows its option or is joined to it") {
  CHECK(normalise({"--nnodes=2"}).options == Words{"--nnodes", "2"});
  CHECK(normalise({"--rdzv-conf=a=1"}).options == Words{"--rdzv-conf", "a=1"});
  CHECK(normalise({"--rdzv-conf="}).options == Words{"--rdzv-conf", ""});
  CHECK(normalise({"--rdzv-conf", ""}).options == Words{"--rdzv-conf", ""});
  for (const Words& words : {Words{"-r", "3"}, Words{"-r3"}, Words{"-r=3"}, Words{"--redirects", "3"}}) {
    CHECK(normalise(words).options == Words{"--redirects", "3"});
  }
  CHECK(normalise({"-mvr3", "pkg"}).options == Words{"--module", "--verbose", "--redirects", "3"});
  CHECK(normalise({"--max-restarts", "-1"}).options == Words{"--max-restarts", "-1"});
}

TEST_CASE("both spellings and short forms of a name mean the same") {
  for (const char* word : {"--nproc-per-node", "--nproc_per_node", "--nproc-per_node", "--nproc", "--np"}) {
    CAPTURE(word);
    CHECK(normalise({word, "2"}).options == Words{"--nproc-per-node", "2"});
  }
  CHECK(normalise({"--redirect=3", "--te=3"}).options == Words{"--redirects", "3", "--tee", "3"});
}

TEST_CASE("a short form that fits torchrun's option and ours means torchrun's") {
  CHECK(normalise({"--v"}).options == Words{"--virtual-local-rank"});
  CHECK(normalise({"--join", "5"}).options == Words{"--join-timeout", "5"});
}

TEST_CASE("a dry run has a form only after an equals sign") {
  CHECK(normalise({"--dry-run=json", "t.py"}).options == Words{"--dry-run", "json"});
  const Arguments arguments = normalise({"--dry-run", "json"});
  CHECK(arguments.options == Words{"--dry-run", "text"});
  CHECK(arguments.command == Words{"json"});
}

TEST_CASE("a short form of several options lists them") {
  CHECK(error_for({"--st=x"}) ==
        "option --st is ambiguous | did you mean --standalone, --start-method, --stage, --stage-to, "
        "--stage-keep, --store, --store-access, "
        "--store-memory, --standby, --standby-memory, --stacks-every, --strict, --status or --stacks?");
  CHECK(error_for({"--duplicate_std", "x"}) ==
        "option --duplicate_std is ambiguous | did you mean --duplicate-stdout-filters or "
        "--duplicate-stderr-filters?");
  CHECK(error_for({"--ver"}) == "option --ver is ambiguous | did you mean --verbose or --version?");
}

TEST_CASE("a misspelt option suggests the right one") {
  CHECK(error_for({"--nproc-pre-node", "4"}) ==
        "unknown option --nproc-pre-node | did you mean --nproc-per-node?");
  CHECK(error_for({"--nproc_pre_node=4"}) ==
        "unknown option --nproc_pre_node | did you mean --nproc-per-node?");
  CHECK(error_for({"-nnodes", "4"}) == "unknown option -nnodes | did you mean --nnodes?");
  const std::string hint = " | ddprun --help lists the options; those of the script come after it";
  CHECK(error_for({"--learning-rate"}) == "unknown option --learning-rate" + hint);
  CHECK(error_for({"--=3"}) == "unknown option --" + hint);
  CHECK(error_for({"-Z"}) == "unknown option -Z" + hint);
  CHECK(error_for({"--\x1b[2J"}) == "unknown option --\\x1b[2J" + hint);
}

TEST_CASE("habits from other launchers get advice") {
  for (const char* word : {"-n", "-np", "--ntasks", "--num_processes=8", "--num-gpus"}) {
    CAPTURE(word);
    CHECK(error_for({word, "4"})
              .ends_with(" | --nproc-per-node sets the number of workers on each node (default: one per "
                         "visible GPU)"));
  }
  const auto advice = [](const std::string& word) {
    const std::string error = error_for({word, "x"});
    return error.substr(error.find(" | ") + 3);
  };
  for (const char* word : {"--multi_gpu", "--gpu_ids"}) {
    CHECK(advice(word) ==
          "leave it out: ddprun starts one worker for each visible GPU; CUDA_VISIBLE_DEVICES chooses which");
  }
  for (const char* word : {"--mixed_precision", "--config_file"})
    CHECK(advice(word).starts_with("leave it out: ddprun reads no configuration of accelerate"));
  CHECK(advice("--use_deepspeed").starts_with("leave it out: the script calls deepspeed.initialize()"));
  CHECK(advice("--include") == "--hosts names the hosts, CUDA_VISIBLE_DEVICES the GPUs of each");
  for (const char* word : {"--gpus-per-task", "--gres"}) {
    CHECK(advice(word) ==
          "ask the scheduler for GPUs (sbatch, srun, qsub); --gpus-per-worker sets how many of them each "
          "worker "
          "sees");
  }
  CHECK(advice("--cpus-per-task").find("--bind sets which") != std::string::npos);
  CHECK(advice("--partition") == "it is the scheduler's: give it to sbatch, srun or salloc, before ddprun");
  CHECK(error_for({"-np", "4"}).starts_with("unknown option -np | "));
  CHECK(error_for({"-N", "2"}) ==
        "unknown option -N | --nnodes sets the number of nodes (default: those of the allocation)");
  CHECK(error_for({"--machinefile", "h"}) ==
        "unknown option --machinefile | the scheduler names the hosts; without one, use --hosts or "
        "--hostfile, and ddprun starts itself there");
  CHECK(error_for({"--machine_rank=1"}) == "unknown option --machine_rank | did you mean --node-rank?");
  CHECK(error_for({"--main_process_ip=a"}) ==
        "unknown option --main_process_ip | did you mean --master-addr?");
  CHECK(error_for({"--port=1"}) == "unknown option --port | did you mean --master-port?");
  CHECK(error_for({"-x", "A=1"}) ==
        "unknown option -x | leave it out: workers inherit the environment, so export the variable");
}

TEST_CASE("a missing or unwanted value is named") {
  CHECK(error_for({"--nnodes"}) == "option --nnodes needs a value | write --nnodes=N");
  CHECK(error_for({"--nnodes", "--standalone", "t.py"}) ==
        "option --nnodes needs a value, and --standalone looks like another option | write --nnodes=N");
  CHECK(error_for({"-t"}) == "option --tee needs a value | write --tee=CHOICE");
  CHECK(error_for({"--module=1"}) == "option --module accepts no value: '--module=1' | write --module alone");
}

TEST_CASE("the words of the launch itself are kept as they were given, without those that only look") {
  const auto launch = [](const Words& words) { return normalise(words).launch; };
  CHECK(launch({"--dry-run", "--nproc_per_node", "2", "-mv", "--", "--odd", "--dry-run"}) ==
        Words{"--nproc_per_node", "2", "-mv", "--", "--odd", "--dry-run"});
  CHECK(launch({"--dry_run=json", "--snapshot", "f", "--capture=g", "-r3", "t.py", "--capture"}) ==
        Words{"-r3", "t.py", "--capture"});
  CHECK(launch({"--verbose"}) == Words{"--verbose"});
}

TEST_CASE("words that ask for something to be shown are seen among wrong ones") {
  for (const char* word : {"--dry-run", "--dry_run=json", "--dry", "--snapshot=f", "--capture", "--help",
                           "-h", "--help-all", "--version", "--print-config", "--completion=bash", "--status",
                           "--stacks", "--timeline", "--restart", "--drain=n3", "--profile=10s"}) {
    CAPTURE(word);
    CHECK(asks_to_look({"--nnodes", "x", word, "train.py"}));
    CHECK_FALSE(asks_to_look({"--nnodes", "x", "--", "train.py", word}));
  }
  CHECK_FALSE(asks_to_look({"--standby", "--check", "--report", "r", "train.py"}));
}
