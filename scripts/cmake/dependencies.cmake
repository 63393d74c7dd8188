# Everything comes from installed packages (Debian names in scripts/install-dependencies); nothing is downloaded.
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Boost 1.74 REQUIRED CONFIG)
find_package(Threads REQUIRED)

# libsodium ships no CMake package; the static library keeps the binary free of a run-time dependency.
find_path(SODIUM_INCLUDE_DIR sodium.h REQUIRED)
find_library(SODIUM_LIBRARY NAMES libsodium.a sodium REQUIRED)
add_library(sodium UNKNOWN IMPORTED)
set_target_properties(sodium PROPERTIES
  IMPORTED_LOCATION "${SODIUM_LIBRARY}"
  INTERFACE_INCLUDE_DIRECTORIES "${SODIUM_INCLUDE_DIR}")

# Asio is used header-only and without Boost's own libraries.
add_library(ddprun_asio INTERFACE)
target_link_libraries(ddprun_asio INTERFACE Boost::headers Threads::Threads)
target_compile_definitions(ddprun_asio INTERFACE
  BOOST_ASIO_NO_DEPRECATED BOOST_ASIO_DISABLE_THREADS BOOST_ERROR_CODE_HEADER_ONLY)
