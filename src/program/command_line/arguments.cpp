#include "command_line/arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "base/error.hpp"
#include "base/text.hpp"
#include "command_line/mistaken_command.hpp"

namespace ddprun::command_line {

namespace {

// The options that look at a launch instead of making it.
constexpr std::array<std::string_view, 3> k_looking{"dry-run", "capture", "snapshot"};

// Options that start no workers: those above and others.
constexpr std::array<std::string_view, 15> k_showing{
    "dry-run", "capture", "snapshot", "print-config", "help",    "help-all", "version", "completion",
    "status",  "stacks",  "timeline", "watch",        "restart", "drain",    "profile"};

std::string first_word(const char* words) {
  const std::vector<std::string> all = split_words(words);
  return all.empty() ? "" : all.front();
}

bool is_option_word(std::string_view word) { return word.size() > 1 && word.front() == '-'; }

// Follows argparse's rule: a negative number or a text with blanks is a value although it begins with '-'.
bool is_taken_for_option(std::string_view word) {
  return is_option_word(word) && word.find(' ') == std::string_view::npos && !parse_number(word);
}

// Options of other launchers that people type from habit.
constexpr const char* k_workers =
    "--nproc-per-node sets the number of workers on each node (default: one per visible GPU)";
constexpr const char* k_nodes = "--nnodes sets the number of nodes (default: those of the allocation)";
constexpr const char* k_hosts =
    "the scheduler names the hosts; without one, use --hosts or --hostfile, and ddprun starts itself there";
constexpr const char* k_rank = "did you mean --node-rank?";
constexpr const char* k_address = "did you mean --master-addr?";
constexpr const char* k_port = "did you mean --master-port?";
constexpr const char* k_local_rank = "leave it out: LOCAL_RANK is set in the environment of the workers";
constexpr const char* k_restarts = "did you mean --max-restarts?";
constexpr const char* k_variables = "leave it out: workers inherit the environment, so export the variable";
constexpr const char* k_every_gpu =
    "leave it out: ddprun starts one worker for each visible GPU; CUDA_VISIBLE_DEVICES chooses which";
constexpr const char* k_ask_for_gpus =
    "ask the scheduler for GPUs (sbatch, srun, qsub); --gpus-per-worker sets how many of them each worker "
    "sees";
constexpr const char* k_ask_for_cores =
    "ask the scheduler for cores (sbatch, srun, qsub); --bind sets which of them each worker gets";
constexpr const char* k_scheduler = "it is the scheduler's: give it to sbatch, srun or salloc, before ddprun";
constexpr const char* k_of_accelerate =
    "leave it out: ddprun reads no configuration of accelerate; export the ACCELERATE_ variable for it, or "
    "set it in "
    "the script (Accelerator(...))";
constexpr const char* k_of_deepspeed =
    "leave it out: the script calls deepspeed.initialize(); export ACCELERATE_USE_DEEPSPEED=true for a "
    "script of "
    "accelerate";
constexpr const char* k_bind = "did you mean --bind?";
constexpr const char* k_threads = "leave it out: ddprun sets OMP_NUM_THREADS; export it for another number";
constexpr const char* k_of_mpi = "leave it out: it is mpirun's, and ddprun starts without MPI";

struct Habit {
  std::string_view word;
  const char* advice;
};

// mpirun and mpiexec, srun, accelerate launch, deepspeed, horovodrun, torch.distributed.launch.
constexpr Habit k_habits[] = {
    {"--multi-gpu", k_every_gpu},
    {"--gpu-ids", k_every_gpu},
    {"--include", "--hosts names the hosts, CUDA_VISIBLE_DEVICES the GPUs of each"},
    {"--exclude", "--hosts names the hosts, CUDA_VISIBLE_DEVICES the GPUs of each"},
    {"--mixed-precision", k_of_accelerate},
    {"--config-file", k_of_accelerate},
    {"--use-fsdp", k_of_accelerate},
    {"--dynamo-backend", k_of_accelerate},
    {"--same-network", "leave it out: ddprun finds how the nodes reach each other"},
    {"--num-cpu-threads-per-process", k_threads},
    {"--use-deepspeed", k_of_deepspeed},
    {"--deepspeed", k_of_deepspeed},
    {"--deepspeed-config", k_of_deepspeed},
    {"--bind-cores-to-rank", k_bind},
    {"--enable-each-rank-log", "did you mean --logs?"},
    {"--gpus-per-task", k_ask_for_gpus},
    {"--gres", k_ask_for_gpus},
    {"-G", k_ask_for_gpus},
    {"--gpu-bind", k_ask_for_gpus},
    {"-c", k_ask_for_cores},
    {"--cpus-per-task", k_ask_for_cores},
    {"--cpu-bind", k_bind},
    {"--bind-to", k_bind},
    {"-bind-to", k_bind},
    {"--map-by", k_workers},
    {"-ppn", k_workers},
    {"-perhost", k_workers},
    {"-p", k_scheduler},
    {"--partition", k_scheduler},
    {"-A", k_scheduler},
    {"--account", k_scheduler},
    {"--time", k_scheduler},
    {"-J", k_scheduler},
    {"--job-name", k_scheduler},
    {"-w", k_hosts},
    {"--nodelist", k_hosts},
    {"-machinefile", k_hosts},
    {"--mem", k_scheduler},
    {"--exclusive", k_scheduler},
    {"--het-group", k_scheduler},
    {"--mpi", k_scheduler},
    {"--mca", k_of_mpi},
    {"-mca", k_of_mpi},
    {"--allow-run-as-root", k_of_mpi},
    {"--oversubscribe", k_of_mpi},
    {"-env", k_variables},
    {"-n", k_workers},
    {"-np", k_workers},
    {"--np", k_workers},
    {"--ntasks", k_workers},
    {"--ntasks-per-node", k_workers},
    {"--num-proc", k_workers},
    {"--num-processes", k_workers},
    {"--gpus-per-node", k_workers},
    {"--num-gpus", k_workers},
    {"--ngpus", k_workers},
    {"--ngpus-per-node", k_workers},
    {"--ppn", k_workers},
    {"-N", k_nodes},
    {"--num-nodes", k_nodes},
    {"--num-machines", k_nodes},
    {"-H", k_hosts},
    {"--host", k_hosts},
    {"--machinefile", k_hosts},
    {"--machine-rank", k_rank},
    {"--main-process-ip", k_address},
    {"--main-process-port", k_port},
    {"--port", k_port},
    {"--local-rank", k_local_rank},
    {"--restarts", k_restarts},
    {"--retries", k_restarts},
    {"-x", k_variables},
    {"--export", k_variables},
    {"-genv", k_variables},
};

// Returns the advice for a word of another launcher ("-np", "--num-gpus"); nullopt for a word no launcher is
// known to have.
std::optional<std::string> advice_for_habit(std::string_view word) {
  for (const Habit& habit : k_habits) {
    if (habit.word == word) return habit.advice;
  }
  return std::nullopt;
}

class Scanner {
 public:
  Scanner(const std::vector<std::string>& arguments, const std::vector<OptionEntry>& table)
      : arguments_(arguments), table_(table) {}

  Arguments scan() {
    while (next_ < arguments_.size()) {
      const std::string& word = arguments_[next_];
      if (!is_option_word(word)) break;
      const std::size_t first = next_++;
      looking_ = false;
      if (word[1] != '-') {
        take_short(word);
      } else if (word != "--") {
        take_long(word);
      }
      if (!looking_) append(result_.launch, first, next_);
      if (word == "--") break;
    }
    append(result_.launch, next_, arguments_.size());
    append(result_.command, next_, arguments_.size());
    return std::move(result_);
  }

 private:
  void append(std::vector<std::string>& words, std::size_t from, std::size_t to) const {
    words.insert(words.end(), arguments_.begin() + static_cast<std::ptrdiff_t>(from),
                 arguments_.begin() + static_cast<std::ptrdiff_t>(to));
  }

  void take_long(const std::string& word) {
    const std::size_t equals = word.find('=');
    std::string name = word.substr(0, equals);
    std::replace(name.begin(), name.end(), '_', '-');
    const OptionEntry& option = find_long(name.substr(2), word.substr(0, equals));
    std::optional<std::string> joined;
    if (equals != std::string::npos) joined = word.substr(equals + 1);
    if (option.value == OptionValue::none && joined) {
      throw UsageError(fmt::format("option --{} accepts no value: '{}'", option.name, printable(word)),
                       fmt::format("write --{} alone", option.name));
    }
    add(option, joined);
  }

  // Takes "-r3", "-r=3", "-r 3", "-mv".
  void take_short(const std::string& word) {
    for (std::size_t at = 1; at < word.size(); ++at) {
      const auto option = std::find_if(table_.begin(), table_.end(),
                                       [&](const OptionEntry& each) { return each.letter == word[at]; });
      if (option == table_.end()) throw unknown(word);
      if (option->value != OptionValue::none) {
        const bool equals = at + 1 < word.size() && word[at + 1] == '=';
        const std::string rest = word.substr(at + (equals ? 2 : 1));
        add(*option, equals || !rest.empty() ? std::optional(rest) : std::nullopt);
        return;
      }
      add(*option, std::nullopt);
    }
  }

  const OptionEntry& find_long(const std::string& name, const std::string& word) const {
    std::vector<const OptionEntry*> torchrun;
    std::vector<const OptionEntry*> own;
    for (const OptionEntry& option : table_) {
      if (option.name == name) return option;
      if (name.empty() || !std::string_view(option.name).starts_with(name)) continue;
      (option.source == OptionSource::own ? own : torchrun).push_back(&option);
    }
    if (torchrun.size() == 1) return *torchrun.front();
    if (torchrun.empty() && own.size() == 1) return *own.front();
    torchrun.insert(torchrun.end(), own.begin(), own.end());
    if (torchrun.empty() || advice_for_habit("--" + name)) throw unknown(word);
    throw ambiguous(word, torchrun);
  }

  static UsageError ambiguous(const std::string& word, const std::vector<const OptionEntry*>& matches) {
    std::vector<std::string> names;
    for (const OptionEntry* option : matches) names.push_back(fmt::format("--{}", option->name));
    const std::string last = names.back();
    names.pop_back();
    return UsageError(fmt::format("option {} is ambiguous", printable(word)),
                      fmt::format("did you mean {} or {}?", join(names, ", "), last));
  }

  UsageError unknown(const std::string& word) const {
    const std::string typed = word.substr(0, word.find('='));
    std::string name = with_hyphens(typed);
    std::replace(name.begin(), name.end(), '_', '-');
    const std::string what = fmt::format("unknown option {}", printable(typed));
    if (auto advice = advice_for_habit(name)) return UsageError(what, *advice);
    std::vector<std::string> names;
    for (const OptionEntry& option : table_) names.emplace_back(option.name);
    const auto match = closest_match(name.substr(std::min(name.find_first_not_of('-'), name.size())), names);
    return UsageError(what, match ? fmt::format("did you mean --{}?", *match)
                                  : "ddprun --help lists the options; those of the script come after it");
  }

  void add(const OptionEntry& option, std::optional<std::string> joined) {
    result_.options.push_back(fmt::format("--{}", option.name));
    looking_ = looking_ || std::find(k_looking.begin(), k_looking.end(), option.name) != k_looking.end();
    if (option.value == OptionValue::none) return;
    if (!joined && option.value == OptionValue::optional) joined = first_word(option.words);
    if (!joined) joined = take_value(option);
    result_.options.push_back(*joined);
  }

  std::string take_value(const OptionEntry& option) {
    const std::string what = fmt::format("option --{} needs a value", option.name);
    const std::string hint = fmt::format("write --{}={}", option.name, option.metavar);
    if (next_ == arguments_.size()) throw UsageError(what, hint);
    const std::string& word = arguments_[next_];
    if (is_taken_for_option(word)) {
      throw UsageError(fmt::format("{}, and {} looks like another option", what, printable(word)), hint);
    }
    ++next_;
    return word;
  }

  const std::vector<std::string>& arguments_;
  const std::vector<OptionEntry>& table_;
  std::size_t next_ = 0;
  bool looking_ = false;  // the word being taken has an option of k_looking
  Arguments result_;
};

}  // namespace

Arguments normalise_arguments(const std::vector<std::string>& arguments,
                              const std::vector<OptionEntry>& table) {
  return Scanner(arguments, table).scan();
}

bool asks_to_look(const std::vector<std::string>& arguments) {
  const auto end = std::ranges::find(arguments, "--");
  return std::any_of(arguments.begin(), end, [](const std::string& word) {
    if (word == "-h") return true;
    if (!word.starts_with("--")) return false;
    std::string name = word.substr(2, word.find('=') - 2);
    std::ranges::replace(name, '_', '-');
    return std::ranges::any_of(k_showing, [&](std::string_view each) { return each.starts_with(name); });
  });
}

}  // namespace ddprun::command_line
