// The Python of the virtual or conda environment that ddprun itself was started from by its path.
// `pbsdsh /home/u/venv/bin/ddprun` does so where nothing of the submitter's environment is left.
#pragma once

namespace ddprun::facts {

inline constexpr const char* k_own_python = "python beside ddprun";  // in Snapshot::programs

}  // namespace ddprun::facts
