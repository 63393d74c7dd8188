// ddprun's own words: messages on standard error, and what the user asked for on standard output.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "allocation/allocation.hpp"

namespace ddprun::console {

// ddprun's own messages, on standard error: standard output belongs to the workers.

enum class Talk { quiet, normal, verbose };

// Call before anything is said. Details carry the time of day (UTC) and `host`. `program`: name of the
// program that this ddprun starts, one of several in the job; empty: it has none.
void set_up_log(Talk talk, bool stderr_is_terminal, const std::string& host, const std::string& program);

void say(const std::string& text);                                      // normal: what a user wants to know
void say_detail(const std::string& text);                               // verbose only
void say_notice(const std::string& what, const std::string& hint);      // a remark that stops nothing
void say_notice(const std::optional<allocation::Notice>& notice);       // if there is one
void say_error(const std::string& what, const std::string& hint = {});  // always, also when quiet

// Sends whole lines through `writer` instead of straight to standard error; an empty one ends that.
void route_log(std::function<void(const std::string& lines)> writer);

// Shows one status line at a time: on a terminal the next one, or anything else that is said, replaces it; an
// empty one removes it.
void show_status(const std::string& text);

// Output that the user asked ddprun for, on standard output.
// Its other messages go to standard error, as above.

// Notes standard output, before descriptors are opened in the place of closed ones.
void note_standard_output();

// Prints text for people. What others wrote (a host's name, a variable, a worker's last line) must not
// control the terminal: all control bytes but line ends are shown as \xNN. Throws Error when not all could be
// written.
void print_text(const std::string& text);

// Prints as print_text does, but byte for byte: for programs and shells.
void print_data(const std::string& text);

}  // namespace ddprun::console
