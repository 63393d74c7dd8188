// What a worker wrote about its own failure: torch's @record leaves JSON in $TORCHELASTIC_ERROR_FILE
// (torch/distributed/elastic/multiprocessing/errors/error_handler.py).
#pragma once

#include <string>

namespace ddprun::supervise {

// The traceback where there is one, else the message; empty for anything that is not such a file (a worker
// may have died while writing it).
std::string parse_error_file(const std::string& text);

}  // namespace ddprun::supervise
