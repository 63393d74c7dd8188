#include "programs/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "allocation/hostlist.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::programs {

namespace {

constexpr const char* k_separators[] = {":", "::"};

[[noreturn]] void fail(const Program& program, const std::string& what, const std::string& hint) {
  throw UsageError(fmt::format("program {}: {}", program.name, what), hint);
}

// "train" of "/home/u/train.py" and of "pkg.train".
std::string name_of_script(const std::string& script) {
  std::string name = script.substr(script.rfind('/') + 1);
  const std::size_t dot = name.rfind('.');
  if (dot != std::string::npos && dot > 0)
    name =
        name.substr(dot) == ".py" || name.substr(dot) == ".sh" ? name.substr(0, dot) : name.substr(dot + 1);
  std::ranges::replace_if(
      name, [](char c) { return !(std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_'); },
      '-');
  if (name.empty() || !std::isalpha(static_cast<unsigned char>(name.front()))) name.insert(0, "program-");
  return name.substr(0, 40);
}

std::size_t find(const std::vector<Program>& programs, const Program& asking, const std::string& name,
                 const char* option) {
  const auto found = std::ranges::find(programs, name, &Program::name);
  if (found == programs.end()) {
    std::vector<std::string> names;
    for (const Program& each : programs) names.push_back(each.name);
    const auto match = closest_match(name, names);
    fail(asking, fmt::format("{} names no program of this job: '{}'", option, printable(name)),
         match ? fmt::format("did you mean {}?", *match) : "the programs are " + join(names, ", "));
  }
  return static_cast<std::size_t>(found - programs.begin());
}

// Throws where a program needs itself, by `needed`.
template <class Needed>
void refuse_circle(const std::vector<Program>& programs, const char* option, Needed needed) {
  for (std::size_t first = 0; first < programs.size(); ++first) {
    std::vector<std::size_t> open{first};
    std::set<std::size_t> seen;
    while (!open.empty()) {
      const std::size_t at = open.back();
      open.pop_back();
      for (const std::size_t next : needed(programs[at])) {
        if (next == first)
          fail(programs[first], fmt::format("{} leads back to it", option),
               fmt::format("leave {} out of one of these programs", option));
        if (seen.insert(next).second) open.push_back(next);
      }
    }
  }
}

class Placing {
 public:
  Placing(const std::vector<Program>& programs, const std::vector<std::string>& hosts)
      : programs_(programs), hosts_(hosts), placed_(programs.size()), free_(hosts.size(), true) {}

  std::vector<std::vector<int>> run() {
    place_listed();
    if (hosts_.size() == 1) {
      place_all_on_one();
    } else {
      place_next();
    }
    for (std::size_t i = 0; i < programs_.size(); ++i) follow(i);
    return std::move(placed_);
  }

 private:
  void place_listed() {
    for (std::size_t i = 0; i < programs_.size(); ++i) {
      const Program& program = programs_[i];
      if (program.node_list.empty()) continue;
      for (const int node : parse_nodes(program)) take(i, node);
      const auto count = static_cast<int>(placed_[i].size());
      if (program.nodes > 0 && program.nodes != count)
        fail(
            program,
            fmt::format("--nodes names {}, and --nnodes asks for {}", count_of(count, "node"), program.nodes),
            "leave one of them out");
    }
  }

  std::vector<int> parse_nodes(const Program& program) const {
    const std::string& text = program.node_list;
    const bool numbers = text.find_first_not_of("0123456789,-") == std::string::npos;
    std::vector<int> nodes;
    try {
      if (numbers) {
        nodes = allocation::expand_numbers(text, "--nodes", static_cast<int>(hosts_.size()) - 1);
      } else {
        for (const std::string& host : allocation::expand_hostlist(text, "--nodes")) {
          const auto found =
              std::ranges::find_if(hosts_, [&](const std::string& each) { return same_host(each, host); });
          if (found == hosts_.end())
            throw Error(fmt::format("--nodes names {}, which is no host of this job", printable(host)));
          nodes.push_back(static_cast<int>(found - hosts_.begin()));
        }
      }
    } catch (const Error& error) {
      fail(program, error.what(),
           fmt::format("the job has {}, numbered from 0: {}",
                       count_of(static_cast<int>(hosts_.size()), "node"),
                       allocation::compress_hostlist(hosts_)));
    }
    std::ranges::sort(nodes);
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    return nodes;
  }

  void take(std::size_t program, int node) {
    placed_[program].push_back(node);
    free_[static_cast<std::size_t>(node)] = false;
  }

  bool is_open(std::size_t program) const {
    return placed_[program].empty() && programs_[program].with.empty();
  }

  void place_all_on_one() {
    for (std::size_t i = 0; i < programs_.size(); ++i) {
      if (!is_open(i)) continue;
      if (programs_[i].nodes > 1)
        fail(programs_[i], fmt::format("it asks for {} nodes, and the job has one", programs_[i].nodes),
             "ask the scheduler for more nodes, or leave --nnodes out");
      take(i, 0);
    }
  }

  // Counts first: one program may have what the others leave.
  void place_next() {
    int left = static_cast<int>(std::ranges::count(free_, true));
    std::vector<std::string> open, asked;
    std::vector<int> wanted(programs_.size());
    for (std::size_t i = 0; i < programs_.size(); ++i) {
      if (!is_open(i)) continue;
      const Program& program = programs_[i];
      left -= wanted[i] = program.nodes;
      program.nodes > 0 ? asked.push_back(fmt::format("{} {}", program.name, program.nodes))
                        : open.push_back(program.name);
    }
    if (open.size() > 1)
      throw UsageError(
          fmt::format("the programs {} do not say how many nodes they take", join(open, " and ")),
          "give all but one of them --nnodes N, or --with NAME for the same nodes as another program");
    for (std::size_t i = programs_.size(); i-- > 0 && left < static_cast<int>(open.size());) {
      if (!is_open(i)) continue;
      const int missing = static_cast<int>(open.size()) - left;
      const int given_up = std::clamp(missing, 0, std::max(wanted[i] - programs_[i].least, 0));
      wanted[i] -= given_up;
      left += given_up;
    }
    if (left < static_cast<int>(open.size()))
      throw UsageError(
          fmt::format("the programs ask for more nodes than the job has, {}: {}{}", hosts_.size(),
                      join(asked, ", "), open.empty() ? "" : fmt::format(", {} the others", open.front())),
          "ask the scheduler for more nodes, or let programs share nodes: --with NAME");
    int next = 0;
    for (std::size_t i = 0; i < programs_.size(); ++i) {
      if (!is_open(i)) continue;
      for (int count = wanted[i] > 0 ? wanted[i] : left; count > 0; ++next) {
        if (!free_[static_cast<std::size_t>(next)]) continue;
        take(i, next);
        --count;
      }
    }
  }

  const std::vector<int>& follow(std::size_t program) {
    const Program& each = programs_[program];
    if (placed_[program].empty() && !each.with.empty()) {
      placed_[program] = follow(find(programs_, each, each.with, "--with"));
      const auto there = static_cast<int>(placed_[program].size());
      if (each.nodes > there)
        fail(each, fmt::format("it asks for {} nodes, and {} has {}", each.nodes, each.with, there),
             fmt::format("leave --nnodes out: it runs on the nodes of {}", each.with));
      if (each.nodes > 0) placed_[program].resize(static_cast<std::size_t>(each.nodes));
    }
    return placed_[program];
  }

  const std::vector<Program>& programs_;
  const std::vector<std::string>& hosts_;
  std::vector<std::vector<int>> placed_;
  std::vector<bool> free_;
};

// GPUs that a program asks for; -1: the rest.
int gpus_asked(const Program& program) {
  if (program.replica >= 0) return program.gpus;
  if (!program.with.empty() && program.gpus < 0) return 0;
  if (program.workers == 0) return -1;
  return program.workers * std::max(program.gpus, 1);
}

void share_gpus(const std::vector<const Program*>& programs, const std::string& host, int gpus,
                std::vector<Share>& shares) {
  int asked = 0;
  std::vector<std::string> told;
  for (const Program* each : programs) {
    const int wanted = gpus_asked(*each);
    asked += std::max(wanted, 0);
    if (wanted > 0) told.push_back(fmt::format("{} {}", each->name, wanted));
  }
  if (asked > gpus && gpus > 0)
    throw Error(fmt::format("{} has {}, and its programs ask for {}: {}", host, count_of(gpus, "GPU"), asked,
                            join(told, ", ")),
                "give them fewer workers (--nproc-per-node), or nodes of their own");
  int next = 0;
  bool rest_taken = false;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    int count = gpus > 0 ? gpus_asked(*programs[i]) : 0;
    if (count < 0) count = std::exchange(rest_taken, true) ? 0 : gpus - asked;
    shares[i].all_gpus = count == gpus;
    for (; count > 0; --count) shares[i].gpus.push_back(next++);
    const auto got = static_cast<int>(shares[i].gpus.size());
    shares[i].workers = programs[i]->workers > 0 ? programs[i]->workers : std::max(got, 1);
  }
}

void share_cores(const std::vector<facts::Core>& cores, std::vector<Share>& shares) {
  if (cores.size() < shares.size()) return;
  std::size_t left_workers = 0;
  for (const Share& each : shares) left_workers += static_cast<std::size_t>(each.workers);
  std::size_t next = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const std::size_t left = cores.size() - next, others = shares.size() - i - 1;
    const auto workers = static_cast<std::size_t>(shares[i].workers);
    const std::size_t count = others == 0
                                  ? left
                                  : std::clamp(left * workers / std::max(left_workers, std::size_t{1}),
                                               std::size_t{1}, left - others);
    left_workers -= workers;
    for (std::size_t taken = 0; taken < count; ++taken, ++next)
      shares[i].cpus.insert(shares[i].cpus.end(), cores[next].cpus.begin(), cores[next].cpus.end());
    std::ranges::sort(shares[i].cpus);
  }
}

}  // namespace

std::vector<std::vector<std::string>> split_programs(const std::vector<std::string>& arguments) {
  std::vector<std::vector<std::string>> pieces(1);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--") {
      pieces.back().insert(pieces.back().end(), arguments.begin() + static_cast<std::ptrdiff_t>(i),
                           arguments.end());
      break;
    }
    const bool separates = std::ranges::find(k_separators, arguments[i]) != std::end(k_separators);
    separates ? (void)pieces.emplace_back() : pieces.back().push_back(arguments[i]);
  }
  if (pieces.size() == 1) return pieces;
  if (std::ranges::any_of(pieces, [](const auto& piece) { return piece.empty(); }))
    throw UsageError("there is no program on one side of a ':'",
                     "':' stands between the programs of a job; one that is the script's own follows '--'");
  if (pieces.size() > k_most_programs)
    throw UsageError(fmt::format("the job has {} programs, more than {}", pieces.size(), k_most_programs));
  return pieces;
}

std::vector<std::string> join_programs(const std::vector<std::vector<std::string>>& pieces) {
  std::vector<std::string> words = pieces.front();
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    words.emplace_back(k_separators[1]);
    words.insert(words.end(), pieces[i].begin(), pieces[i].end());
  }
  return words;
}

int least_nodes(const std::vector<Program>& programs) {
  int least = 0, all = 0;
  for (const Program& each : programs) {
    if (!each.with.empty()) continue;
    if (each.nodes == 0) return 0;  // it cannot be known what it can do without
    least += each.least;
    all += each.nodes;
  }
  return least < all ? least : 0;
}

void settle_names(std::vector<Program>& programs, const std::vector<std::string>& scripts) {
  std::set<std::string> taken;
  for (const Program& each : programs) {
    if (!each.name.empty() && !taken.insert(each.name).second)
      throw UsageError(fmt::format("two programs have the name {}", each.name), "give each its own --name");
  }
  for (std::size_t i = 0; i < programs.size(); ++i) {
    if (!programs[i].name.empty()) continue;
    const std::string name = name_of_script(scripts[i]);
    std::string free = name;
    for (int number = 2; !taken.insert(free).second; ++number) free = fmt::format("{}-{}", name, number);
    programs[i].name = free;
  }
  for (const Program& each : programs) {
    if (!each.with.empty()) find(programs, each, each.with, "--with");
    if (!each.with.empty() && !each.node_list.empty())
      fail(each, "--with and --nodes contradict each other", "leave out one of them");
    for (const std::string& name : each.after) find(programs, each, name, "--after");
  }
  refuse_circle(programs, "--with", [&](const Program& each) {
    return each.with.empty() ? std::vector<std::size_t>()
                             : std::vector{find(programs, each, each.with, "--with")};
  });
  refuse_circle(programs, "--after", [&](const Program& each) {
    std::vector<std::size_t> needed;
    for (const std::string& name : each.after) needed.push_back(find(programs, each, name, "--after"));
    return needed;
  });
}

std::vector<std::vector<int>> place(const std::vector<Program>& programs,
                                    const std::vector<std::string>& hosts) {
  return Placing(programs, hosts).run();
}

std::vector<Share> share_node(const std::vector<const Program*>& programs, const std::string& host,
                              const std::vector<facts::Core>& cores, int gpus) {
  std::vector<Share> shares(programs.size());
  share_gpus(programs, host, gpus, shares);
  if (programs.size() > 1) share_cores(cores, shares);
  return shares;
}

std::map<std::size_t, Share> share_node(const std::vector<Program>& programs,
                                        const std::vector<std::vector<int>>& nodes, int node,
                                        const std::string& host, const std::vector<facts::Core>& cores,
                                        int gpus) {
  std::vector<std::size_t> numbers;
  std::vector<const Program*> here;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    if (std::ranges::find(nodes[i], node) == nodes[i].end()) continue;
    numbers.push_back(i);
    here.push_back(&programs[i]);
  }
  const std::vector<Share> shares = share_node(here, host, cores, gpus);
  std::map<std::size_t, Share> found;
  for (std::size_t i = 0; i < numbers.size(); ++i) found[numbers[i]] = shares[i];
  return found;
}

std::string variable_part(const std::string& name) {
  std::string part = to_upper(name);
  std::ranges::replace(part, '-', '_');
  return part;
}

}  // namespace ddprun::programs
