// Python's pickles of plain values, as torch writes its flight records: read without running anything.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace ddprun::inspect {

// Reports whether a text begins as a pickle of protocol 2 or later.
bool is_pickle(std::string_view text);

// Returns the value as JSON: pairs are lists. A discarded value (is_discarded()) where the text has anything
// but the instructions that torch uses for dictionaries with names, lists, pairs, texts, numbers, truth
// values and None, nests deeper than k_deepest_pickle or grows beyond k_most_pickled values by repeating what
// it has. Instructions: pickletools of Python; torch/csrc/jit/serialization/pickler.cpp.
nlohmann::json read_pickle(std::string_view text);

inline constexpr std::size_t k_deepest_pickle = 32, k_most_pickled = 4'000'000;

}  // namespace ddprun::inspect
