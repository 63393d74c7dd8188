// Options from files, variables and sites: what counts, and what is said about a broken one.
#include "command_line/lower_places.hpp"

#include <filesystem>
#include <fstream>

#include "base/text.hpp"
#include "catch.hpp"
#include "command_line/command_line.hpp"
#include "error_text.hpp"
#include "os/files/temp_dir.hpp"

using namespace ddprun;
using namespace ddprun::command_line;

namespace {

using Words = std::vector<std::string>;

// A user's configuration file, in a folder of its own.
class Config {
 public:
  explicit Config(const std::string& text) {
    std::filesystem::create_directories(folder_.path() + "/ddprun");
    std::ofstream(file()) << text;
    snapshot.environment["XDG_CONFIG_HOME"] = folder_.path();
  }
  std::string file() const { return folder_.path() + "/ddprun/config.json"; }
  options::Options parse(Words words = {}) const {
    words.emplace_back("train.py");
    return std::get<options::Options>(
        parse_command_line(words, snapshot.environment, read_configuration(snapshot)));
  }
  std::string error() const {
    return usage_error_of([&] { parse(); });
  }

  facts::Snapshot snapshot;

 private:
  os::TempDir folder_{std::nullopt};
};

}  // namespace

TEST_CASE("an option in a file has the file and the line as its origin") {
  const Config config("{\n  \"quiet\": true,\n  \"max-restarts\": 3\n}\n");
  const options::Options options = config.parse();
  CHECK(options.quiet);
  CHECK(options.max_restarts == sourced(3, "max-restarts (" + config.file() + ", line 3)"));
}

TEST_CASE("the command line counts more than a variable, DDPRUN_ more than PET_, and a file least") {
  Config config(R"({"max-restarts": 1, "role": "file", "host-timeout": "40s"})");
  config.snapshot.environment["PET_ROLE"] = "torchrun";
  config.snapshot.environment["PET_MAX_RESTARTS"] = "2";
  config.snapshot.environment["DDPRUN_MAX_RESTARTS"] = "3";
  CHECK(config.parse().max_restarts == sourced(3, "DDPRUN_MAX_RESTARTS"));
  CHECK(config.parse().role.value == "torchrun");
  CHECK(config.parse({"--max-restarts", "4"}).max_restarts == sourced(4, "--max-restarts"));
  CHECK(config.parse().given.at("host-timeout").value == "40s");
}

TEST_CASE("a flag that is off in a nearer place stays off") {
  Config config(R"({"quiet": true})");
  config.snapshot.environment["DDPRUN_QUIET"] = "0";
  CHECK_FALSE(config.parse().quiet);
}

TEST_CASE("an option on the command line replaces one in a file that contradicts it") {
  const Config config(R"({"quiet": true, "bind": "none", "hosts": "n1,n2"})");
  const options::Options options =
      config.parse({"--verbose", "--numa-binding", "node", "--hostfile", "hosts"});
  CHECK(options.verbose);
  CHECK_FALSE(options.quiet);
  CHECK(options.given.count("bind") == 0);
  CHECK(options.given.count("hosts") == 0);
}

TEST_CASE("a site's options come below all others") {
  const auto layers = OptionLayers{{{"role", "user", "role (user.json, line 1)"}},
                                   {{"role", "site", "role (site.json, line 9)"},
                                    {"max-restarts", "5", "max-restarts (site.json, line 10)"}}};
  const auto options = std::get<options::Options>(parse_command_line({"train.py"}, {}, layers));
  CHECK(options.role.value == "user");
  CHECK(options.max_restarts.origin == "max-restarts (site.json, line 10)");
}

TEST_CASE("what is wrong with a file is one sentence with the file and the line") {
  const auto first = [](const std::string& text) { return text.substr(0, text.find(" | ")); };
  const Config unknown("{\n  \"max_restarts\": 3\n}");
  CHECK(unknown.error() ==
        "unknown option max_restarts (" + unknown.file() + ", line 2) | did you mean max-restarts?");
  const Config twice("{\"quiet\": true,\n\"quiet\": false}");
  CHECK(first(twice.error()) ==
        "cannot use the configuration " + twice.file() + ", line 2: quiet appears twice");
  const Config broken("{\n\"quiet\": true,\n}");
  CHECK(first(broken.error()) ==
        "cannot use the configuration " + broken.file() +
            ", line 3, column 1: it is not JSON (unexpected '}'; expected string literal)");
  const Config list("{\"bind\": [\"near\"]}");
  CHECK(first(list.error()) == "cannot use the configuration " + list.file() +
                                   ", line 1: bind must be text, a number, true or false");
  const Config value("{\n\n\"max-restarts\": \"x\"}");
  CHECK(first(value.error()).starts_with("max-restarts (" + value.file() + ", line 3) is not a number"));
  const Config single("{\"dry-run\": true}");
  CHECK(single.error() == "dry-run (" + single.file() +
                              ", line 1) cannot be set in a file | give --dry-run on the command line");
}

namespace {

// A value that each option with a value takes in a file; those that only the command line takes have none.
const std::map<std::string, std::string> k_values{
    {"container", R"("apptainer exec x.sif")"},
    {"stage", R"("/data/env")"},
    {"name", R"("server")"},
    {"nodes", R"("0-2")"},
    {"with", R"("train")"},
    {"after", R"("server,data")"},
    {"ready", "8000"},
    {"ready-timeout", R"("90s")"},
    {"on-exit", R"("restart")"},
    {"env", R"("A=1")"},
    {"stage-to", R"("/tmp")"},
    {"nproc-per-node", "2"},
    {"nnodes", R"("2:4")"},
    {"node-rank", "0"},
    {"master-addr", R"("n1")"},
    {"master-port", "29500"},
    {"local-addr", R"("n1")"},
    {"hosts", R"("n1,n2")"},
    {"order", R"("network")"},
    {"hostfile", R"("hosts")"},
    {"launcher", R"("ssh")"},
    {"launcher-args", R"("--mpi=none")"},
    {"scheduler", R"("none")"},
    {"role", R"("trainer")"},
    {"rdzv-endpoint", R"("n1:29400")"},
    {"rdzv-id", "7"},
    {"rdzv-backend", R"("c10d")"},
    {"rdzv-conf", R"("join_timeout=5")"},
    {"join-timeout", R"("10m")"},
    {"rdzv", R"("file")"},
    {"rdzv-dir", R"("/shared")"},
    {"key-file", R"("/shared/key")"},
    {"store", R"("flat")"},
    {"store-access", R"("host")"},
    {"store-memory", R"("2G")"},
    {"site", R"("none")"},
    {"bind", R"("near")"},
    {"numa-binding", R"("node")"},
    {"membind", R"("bind")"},
    {"gpus-per-worker", "2"},
    {"workers-per-gpu", "2"},
    {"nic", R"("auto")"},
    {"topology", R"("node.xml")"},
    {"gpus", "4"},
    {"max-restarts", "3"},
    {"restart-policy", R"("always")"},
    {"min-progress", R"("5m")"},
    {"no-restart-on", R"("3,64")"},
    {"restart-backoff", R"("5s")"},
    {"standby", "2"},
    {"standby-memory", R"("4G")"},
    {"checkpoint-memory", R"("40G")"},
    {"checkpoint-folder", R"("/local")"},
    {"checkpoint-rate", R"("500M")"},
    {"checkpoint-flush", R"("/shared")"},
    {"checkpoint-flush-every", R"("30m")"},
    {"shutdown-timeout", "60"},
    {"host-timeout", R"("60s")"},
    {"spares", "0"},
    {"grow", R"("never")"},
    {"domain-size", "4"},
    {"replace-after", "3"},
    {"signals-to-handle", R"("TERM")"},
    {"hang-timeout", R"("auto")"},
    {"on-hang", R"("report")"},
    {"exit-barrier-timeout", R"("5m")"},
    {"stacks-every", R"("10m")"},
    {"profile-every", R"("1h")"},
    {"slow-notice", R"("15%")"},
    {"on-slow", R"("replace")"},
    {"signal-before-end", R"("USR1@120")"},
    {"requeue", "3"},
    {"check-command", R"("node-check")"},
    {"check-timeout", R"("10s")"},
    {"on-failure", R"("notify")"},
    {"requeue-on", R"("85")"},
    {"no-requeue-on", R"("77")"},
    {"min-attempt-time", R"("10m")"},
    {"redirects", "3"},
    {"tee", "3"},
    {"log-dir", R"("/logs")"},
    {"local-ranks-filter", R"("0,1")"},
    {"duplicate-stdout-filters", R"("loss")"},
    {"duplicate-stderr-filters", R"("loss")"},
    {"log-line-prefix-template", R"("$rank")"},
    {"logs", R"("/logs")"},
    {"label", R"("{rank}:")"},
    {"ranks", R"("0-3")"},
    {"fold", R"("on")"},
    {"output-rate", R"("1M")"},
    {"log-rotate", R"("100M")"},
    {"log-compress", R"("zstd")"},
    {"check", R"("auto")"},
    {"exclude-file", R"("/x")"},
    {"gpu-release-timeout", R"("20s")"},
    {"report", R"("r.json")"},
    {"events", R"("e.jsonl")"},
    {"metrics", R"("m.prom")"},
    {"event-log-handler", R"("null")"},
    {"monitor-interval", "5"},
    {"start-method", R"("spawn")"},
    {"logs-specs", R"("default")"},
};

const std::vector<std::string> k_command_line_only{
    "job",     "dry-run",          "capture", "snapshot",     "timeline", "output",
    "status",  "stacks",           "watch",   "print-config", "help",     "help-all",
    "version", "print-completion", "restart", "drain",        "profile"};

// What a file with this one member says of it: "refused", or the text that the option gets, "off" where it is
// asked for nowhere.
std::string outcome(const std::string& name, const std::string& json) {
  const Config config("{\"" + name + "\": " + json + "}");
  const std::string error = config.error();
  if (error != "no error") {
    INFO(error);
    CHECK(error.find(config.file() + ", line 1") != std::string::npos);
    return "refused";
  }
  const options::Options options = config.parse();
  const auto given = options.given.find(name);
  return given == options.given.end() ? "not given"
         : given->second.value == "0" ? "off"
                                      : given->second.value;
}

std::string expected_of_true(const OptionEntry& option) {
  if (option.value == OptionValue::none) return "1";
  if (option.value == OptionValue::required || option.name == std::string_view("check")) return "refused";
  const std::vector<std::string> words = split_words(option.words);
  return words.empty() ? "" : words.front();
}

}  // namespace

TEST_CASE(
    "every option in a file is on with true, off with false, and has its value; null and lists are none") {
  for (const OptionEntry& option : option_table()) {
    const std::string name = option.name;
    INFO(name);
    if (std::ranges::find(k_command_line_only, name) != k_command_line_only.end()) {
      for (const char* json : {"true", "false", "1", R"("text")"}) CHECK(outcome(name, json) == "refused");
      continue;
    }
    for (const char* json : {"null", "[]", R"(["x"])", "{}"}) CHECK(outcome(name, json) == "refused");
    CHECK(outcome(name, "true") == expected_of_true(option));
    const std::string off = option.value == OptionValue::required ? "refused" : "off";
    CHECK(outcome(name, "false") == off);
    if (option.value == OptionValue::none) {
      CHECK(outcome(name, "1") == "1");
      CHECK(outcome(name, "0") == "off");
      CHECK(outcome(name, R"("yes")") == "refused");
    } else {
      const std::string json = k_values.at(name);
      const std::string text = json.starts_with('"') ? json.substr(1, json.size() - 2) : json;
      CHECK(outcome(name, json) == (text == "0" ? "off" : text));
    }
  }
}

TEST_CASE("options with an optional value mean in a file what they mean on the command line") {
  const auto of = [](const std::string& text) { return Config(text).parse(); };
  CHECK(of(R"({"standby": true})").restarts.standbys == SIZE_MAX);
  CHECK(of(R"({"standby": 1})").restarts.standbys == 1);
  CHECK_FALSE(of(R"({"standby": false})").restarts.standby.value);
  CHECK(of(R"({"requeue": true})").time_limit.requeue->value == 0);
  CHECK(of(R"({"requeue": 2})").time_limit.requeue->value == 2);
  CHECK_FALSE(of(R"({"requeue": 0})").time_limit.requeue);
  CHECK_FALSE(of(R"({"requeue": false})").time_limit.requeue);
  CHECK(of(R"({"label": true})").output.label->value.empty());
  CHECK(of(R"({"label": "1"})").output.label->value == "1");
  CHECK_FALSE(of(R"({"label": false})").output.label);
  CHECK(of(R"({"fold": true})").output.fold == output::Folding::on);
  CHECK(of(R"({"fold": false})").output.fold == output::Folding::off);
  CHECK(of(R"({"check": "auto"})").check.automatic);
  CHECK(of(R"({"gpu-release-timeout": 20, "check": "auto"})").check.release_timeout == Milliseconds{20000});
  CHECK(of(R"({"check": "auto"})").check.release_timeout == Milliseconds{50000});
}

TEST_CASE("what a file cannot set is said with the file and what to do") {
  const auto error_of = [](const std::string& text) {
    const Config config(text);
    std::string error = config.error();
    const std::size_t at = error.find(config.file());
    return at == std::string::npos ? error : error.replace(at, config.file().size(), "FILE");
  };
  CHECK(error_of(R"({"stacks": true})") ==
        "stacks (FILE, line 1) cannot be set in a file | give --stacks on the command line");
  CHECK(error_of(R"({"check": true})") ==
        "check (FILE, line 1) cannot be 'table', which would check in place of every run | give auto, which "
        "checks "
        "before each run, or give --check on the command line");
  CHECK(error_of(R"({"max-restarts": true})") ==
        "max-restarts (FILE, line 1) needs a value and cannot be true | write the value that "
        "--max-restarts=N has "
        "on the command line");
  CHECK(error_of(R"({"events": false})") ==
        "events (FILE, line 1) needs a value and cannot be false | leave it out for the default");
  CHECK(error_of(R"({"quiet": "yes"})") ==
        "quiet (FILE, line 1) is neither true nor false: 'yes' | write true or false, without quotes");
  CHECK(error_of(R"({"verbose": true, "quiet": true})").starts_with("verbose (FILE, line 1) and quiet ("));
}

TEST_CASE("what is off in the user's file is not turned on by the machine's") {
  const auto layers = OptionLayers{{{"requeue", "false", "requeue (user.json, line 1)"}},
                                   {{"requeue", "true", "requeue (etc.json, line 1)"}}};
  const auto options = std::get<options::Options>(parse_command_line({"train.py"}, {}, layers));
  CHECK_FALSE(options.time_limit.requeue);
}

TEST_CASE("an empty variable is an option without its value") {
  const auto of = [](const char* name) {
    return std::get<options::Options>(parse_command_line({"train.py"}, {{name, ""}}));
  };
  CHECK(of("DDPRUN_FOLD").output.fold == output::Folding::on);
  CHECK(of("DDPRUN_STANDBY").restarts.standbys == SIZE_MAX);
  CHECK(of("DDPRUN_REQUEUE").time_limit.requeue->value == 0);
}

TEST_CASE("options of a file that need another one wait for it, and give way to the command line") {
  const auto of = [](const std::string& text, Words words) { return Config(text).parse(std::move(words)); };
  CHECK_FALSE(
      of(R"({"log-rotate": "100M", "timestamps": true, "strict": true, "grow": "never"})", {}).check.wanted);
  CHECK(of(R"({"logs": "/a"})", {"--log-dir", "/b"}).output.logs.value.empty());
  CHECK_FALSE(of(R"({"omp-places": true, "membind": "bind"})", {"--bind", "none"}).omp_places);
}

TEST_CASE("the paths of a file have the home folder and variables in them") {
  Config config(
      R"({"events": "~/e.jsonl", "metrics": "/m/$USER-${JOB:-none}.prom", "logs": "$$x", "role": "$USER"})");
  config.snapshot.environment["HOME"] = "/home/ada";
  config.snapshot.environment["USER"] = "ada";
  const options::Options options = config.parse();
  CHECK(options.events_file == "/home/ada/e.jsonl");
  CHECK(options.metrics_file == "/m/ada-none.prom");
  CHECK(options.output.logs.value == "$x");
  CHECK(options.role.value == "$USER");  // no file
  CHECK(config.parse({"--events", "~/typed"}).events_file == "~/typed");
}

TEST_CASE("a path with a variable that is not set is left out, with a notice") {
  const Config config(R"({"metrics": "/m/$SLURM_JOB_ID.prom"})");
  Advice advice;
  const auto options = std::get<options::Options>(
      parse_command_line({"train.py"}, {}, read_configuration(config.snapshot), &advice));
  CHECK(options.metrics_file.empty());
  REQUIRE(advice.warnings.size() == 1);
  CHECK(advice.warnings[0].what ==
        "metrics (" + config.file() +
            ", line 1) is left out: SLURM_JOB_ID is not set, as /m/$SLURM_JOB_ID.prom "
            "needs it");
  CHECK(advice.warnings[0].hint ==
        "export SLURM_JOB_ID, or write ${SLURM_JOB_ID:-TEXT} for a TEXT where it is not set");
}

TEST_CASE("a variable that is nearly one of ddprun's is named with the one that was meant") {
  const auto warnings_of = [](const facts::Environment& environment) {
    Advice advice;
    parse_command_line({"train.py"}, environment, {}, &advice);
    std::vector<std::string> texts;
    for (const allocation::Notice& each : advice.warnings) texts.push_back(each.what + " | " + each.hint);
    return texts;
  };
  CHECK(
      warnings_of({{"DDPRUN_MAX_RESTART", "3"}}) ==
      Words{
          "DDPRUN_MAX_RESTART has no effect: there is no such variable | did you mean DDPRUN_MAX_RESTARTS?"});
  CHECK(
      warnings_of({{"DDPRUN_DRY_RUN", "1"}}) ==
      Words{"DDPRUN_DRY_RUN has no effect: there is no such variable | give --dry-run on the command line"});
  CHECK(warnings_of(
            {{"DDPRUN_BIN", "/opt"}, {"DDPRUN_HOME", "/opt"}, {"DDPRUN_VERSION", "1"}, {"DDPRUN_XYZZY", "1"}})
            .empty());
  CHECK(warnings_of({{"DDPRUN_HOSTS", "n1"}, {"DDPRUN_MAX_RESTART", "3"}}).empty());  // started by another
  CHECK(warnings_of({{"DDPRUN_WORKER_VARIABLES", "x:RANK"}, {"DDPRUN_STAGED", "/a"}}).empty());
  CHECK(warnings_of({{"DDPRUN_MAX_RESTARTS", "3"}, {"DDPRUN_SECRET", "0123456789abcdef"}}).empty());
}

TEST_CASE("a file that is there and cannot be read is an error, and one that is missing is none") {
  Config config("{}");
  std::filesystem::remove(config.file());
  CHECK(read_configuration(config.snapshot).empty());
  std::filesystem::create_directory(config.file());
  CHECK(config.error().starts_with("cannot read " + config.file()));
}

TEST_CASE("--print-config shows what is set with its origin, and the files that were looked for") {
  Config config(R"({"max-restarts": 3})");
  config.snapshot.environment["DDPRUN_BIND"] = "none";
  const options::Options options = config.parse({"--role", "trainer"});
  const std::string text = render_config(options, facts::config_files(config.snapshot.environment));
  CHECK(text.find("max-restarts         3                    max-restarts (" + config.file() +
                  ", line 1)\n") != std::string::npos);
  CHECK(text.find("bind                 none                 DDPRUN_BIND\n") != std::string::npos);
  CHECK(text.find("role                 trainer              --role\n") != std::string::npos);
  CHECK(text.find("\n  " + config.file() + "\n") != std::string::npos);
}

TEST_CASE("every option but those that print and end, and two of ddprun's own, has a variable") {
  const auto find = [](const std::string& name) { return find_configured({name, "", ""}); };
  CHECK(own_variable_of(find("max-restarts")) == "DDPRUN_MAX_RESTARTS");
  CHECK(own_variable_of(find("hosts")).empty());
  CHECK(own_variable_of(find("node-rank")).empty());
}
