// The rows of jobs of several programs.
#include "command_line/option_rows.hpp"
#include "options/program_options.hpp"

namespace ddprun::command_line::rows {

namespace {

std::vector<std::string> names_from(const Given& given) {
  std::vector<std::string> names;
  for (const std::string& name : split(given.value, ','))
    names.push_back(options::parse_program_name(name, given.origin));
  return names;
}

std::string ready_from(const Given& given) {
  const auto port = parse_integer(given.value);
  require(port ? *port > 0 && *port < 65536 : given.value.starts_with('/'), given,
          "is neither a port nor an absolute path",
          "give the port that answers, or the file that appears, once it is ready");
  return given.value;
}

constexpr OptionEntry k_programs[] = {
    file_value("job", "FILE", own, programs, "read options and programs from a JSON file",
               [](Draft& draft, const Given& given) { draft.job_file = file_from(given); }),
    value("name", "NAME", own, programs, "name of this program (default: its script's)",
          [](Draft& draft, const Given& given) {
            draft.program.name = options::parse_program_name(given.value, given.origin);
          }),
    value("nodes", "LIST", own, programs,
          "nodes of this program: numbers in the job's order, as in 0-2, or hosts, as in n[1-3] (default: "
          "the next "
          "free ones)",
          [](Draft& draft, const Given& given) {
            draft.program.nodes =
                text_from(given, "names no node", "give numbers from 0, as in 0-2, or hosts");
          }),
    value("with", "NAME", own, programs, "run on the nodes of that program, and share their cores and GPUs",
          [](Draft& draft, const Given& given) {
            draft.program.with = options::parse_program_name(given.value, given.origin);
          }),
    value("after", "NAME,...", own, programs, "start this program once those are ready",
          [](Draft& draft, const Given& given) { draft.program.after = names_from(given); }),
    value("ready", "PORT|FILE", own, programs,
          "this program is ready once the port answers or the file is there (default: a worker has touched "
          "$DDPRUN_READY_FILE)",
          [](Draft& draft, const Given& given) { draft.program.ready = ready_from(given); }),
    value("ready-timeout", "TIME", own, programs,
          "how long this program waits for those of --after to be ready (default: 10m)",
          [](Draft& draft, const Given& given) {
            draft.program.ready_timeout = time_from(given).value;
            require(draft.program.ready_timeout > Milliseconds{0}, given, "of 0 waits for nothing",
                    "leave --after out, or give a time");
          }),
    word_value(
        "on-exit", "ACTION", "job fail restart ignore", own, programs,
        "what the end of this program means: job (the job ends with it), fail (its failure is the job's), "
        "restart (it starts again, alone) or ignore (default: job for the first program, else fail)",
        [](Draft& draft, const Given& given) {
          draft.program.on_exit = enum_from<options::OnExit>(given).value;
        }),
    flag("independent", own, programs,
         "start each worker of this program as a replica: one that ends is started again alone",
         [](Draft& draft, const Given&) { draft.program.independent = true; }),
    value("env", "NAME=VALUE", own, programs,
          "set a variable for the workers of this program; may be repeated",
          [](Draft& draft, const Given& given) {
            draft.program.environment.push_back(options::parse_variable(given.value, given.origin));
          })};

}  // namespace

std::span<const OptionEntry> of_programs() { return k_programs; }

}  // namespace ddprun::command_line::rows
