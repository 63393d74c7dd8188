// Options from files, variables and sites: what counts, and what is said about a broken one.
#include "command_line/config.hpp"

#include <filesystem>
#include <fstream>

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
        "cannot use the configuration " + broken.file() + ", line 3: it is not JSON");
  const Config list("{\"bind\": [\"near\"]}");
  CHECK(first(list.error()) == "cannot use the configuration " + list.file() +
                                   ", line 1: bind must be text, a number, true or false");
  const Config value("{\n\n\"max-restarts\": \"x\"}");
  CHECK(first(value.error()).starts_with("max-restarts (" + value.file() + ", line 3) is not a number"));
  const Config single("{\"dry-run\": true}");
  CHECK(single.error() == "dry-run (" + single.file() +
                              ", line 1) cannot be set in a file | give --dry-run on the command line");
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
