// An agent's side of PMI-1, the text protocol of MPICH's hydra, Flux and Slurm's pmi2 plug-in.
// It asks where the others are, lets the coordinator leave one value and all others fetch it.
//
//     init, get_maxes, get_my_kvsname, get PMI_process_mapping, [put,] barrier_in, get
//
// Requests and answers alternate. Answers are read by key: servers order keys differently and add some of
// their own (MPICH 4.0.2 and Slurm 22.05 are in the tests; src/pmi/maint/pmi-1.1.txt of MPICH lists all
// commands).
//
// If processes share a node, only some agents may be here: an agent that sees that it stands for one of
// several tasks leaves the connection to its worker. So no agent enters the barrier then, and all find each
// other otherwise.
//
// "finalize" is not sent here: it ends the connection for an MPI program that a worker may still be. But a
// process that said init and ends without it makes hydra kill all others, so it is the last word of an agent
// that leaves.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::facts {

inline constexpr std::size_t k_max_pmi_line = 16384;
inline constexpr std::string_view k_pmi_finalize = "cmd=finalize\n";
inline constexpr std::string_view k_pmi_finalized = "cmd=finalize_ack";

using PmiLine = std::map<std::string, std::string>;
// Parses "cmd=put_result rc=0"; nullopt if a word has no '=', or none is "cmd".
std::optional<PmiLine> parse_pmi_line(std::string_view line);

// Reports whether one of `size` processes shares its node with another, from "(vector,(0,2,1))": blocks of
// first node, nodes, processes on each, repeated until there are enough. nullopt if the text is malformed.
std::optional<bool> shares_a_node(std::string_view mapping, int size);

// Result of a key-value space of any kind.
struct KeyValueAnswer {
  enum class Kind { told, uneven, failed };
  Kind kind = Kind::failed;
  std::string text;  // told: the coordinator's value; failed: why, one sentence
  friend bool operator==(const KeyValueAnswer&, const KeyValueAnswer&) = default;
};
// Renders one line without its end, and parses it; text that is no answer is a failure that says so.
std::string render_answer(const KeyValueAnswer& answer);
KeyValueAnswer parse_answer(std::string_view line);

struct PmiRequest {
  std::optional<std::string> value;  // the coordinator's, printable and without blanks; nullopt: fetch it
  int size = 1;                      // processes of the launch, PMI_SIZE
  bool all_take_part = false;        // every agent was told to: shared nodes do not matter
  std::string id;                    // PMI_ID where the connection was made to PMI_PORT; else empty
};

class PmiConversation {
 public:
  explicit PmiConversation(PmiRequest request) : request_(std::move(request)) {}

  std::string start();                      // the first request, with its line end
  std::string take(std::string_view line);  // an answer without its end; the next request, empty when over
  bool over() const { return answer_.has_value(); }
  const KeyValueAnswer& answer() const { return *answer_; }
  // Returns "said nothing to get_maxes": for the sentence about a wait without result.
  std::string asked() const;

 private:
  enum class Stage { greeting, init, maxes, name, mapping, put, barrier, get };

  std::string ask(Stage stage);
  std::string end(KeyValueAnswer::Kind kind, std::string text);
  std::string fail(const std::string& why) { return end(KeyValueAnswer::Kind::failed, why); }
  std::string take_maxes(const PmiLine& line);
  std::string take_mapping(const PmiLine& line);
  std::string after(const PmiLine& line);

  PmiRequest request_;
  Stage stage_ = Stage::init;
  std::string space_;  // kvsname
  std::optional<KeyValueAnswer> answer_;
};

}  // namespace ddprun::facts
