// Reader of the dumps of --stacks-every and of torch's flight records, for --stacks FOLDER.
#pragma once

#include <string>

namespace ddprun::commands {

// Returns the text of the newest dumps in a folder of --logs (that folder, the one of a run in it, or stacks
// in that), then of torch's flight records in it, or in the one of its last attempt: files of one name that
// ends with the rank, as pickle or JSON. Throws UsageError if there are none.
std::string describe_stack_folder(const std::string& folder);

}  // namespace ddprun::commands
