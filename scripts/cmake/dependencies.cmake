# Everything comes from installed packages (Debian names in scripts/install-dependencies); nothing is downloaded.
find_package(fmt REQUIRED)
# The program that is shipped has fmt inside it, compiled once: as a header in every file it is a third of the build's time.
# Debian has no static library of it; packaging/portable has one.
add_library(ddprun_fmt INTERFACE)
if(DDPRUN_HARDEN AND NOT DDPRUN_SYSROOT AND fmt_VERSION VERSION_LESS 10)
  add_library(fmt_inside STATIC "${PROJECT_SOURCE_DIR}/packaging/portable/fmt.cpp")
  set_target_properties(fmt_inside PROPERTIES CXX_STANDARD 20 POSITION_INDEPENDENT_CODE ON)
  get_target_property(fmt_headers fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
  target_include_directories(ddprun_fmt SYSTEM INTERFACE "${fmt_headers}")
  target_link_libraries(ddprun_fmt INTERFACE fmt_inside)
  target_include_directories(fmt_inside SYSTEM PRIVATE "${fmt_headers}")
elseif(DDPRUN_HARDEN AND NOT DDPRUN_SYSROOT)  # what fmt.cpp instantiates is that of version 9
  target_link_libraries(ddprun_fmt INTERFACE fmt::fmt-header-only)
else()
  target_link_libraries(ddprun_fmt INTERFACE fmt::fmt)
endif()
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

# hwloc as well. Its static library asks udev for names of disks; src/system/os/libraries/no_udev.cpp says that there is none.
# Where the static library needs more than that, the shared one is linked.
find_path(HWLOC_INCLUDE_DIR hwloc.h REQUIRED)
find_library(HWLOC_STATIC_LIBRARY libhwloc.a)
find_library(HWLOC_SHARED_LIBRARY hwloc)
if(HWLOC_STATIC_LIBRARY AND NOT DEFINED HWLOC_STATIC_LINKS)
  try_compile(HWLOC_STATIC_LINKS
    SOURCES "${PROJECT_SOURCE_DIR}/scripts/cmake/check_hwloc.cpp" "${PROJECT_SOURCE_DIR}/src/system/os/libraries/no_udev.cpp"
    CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${HWLOC_INCLUDE_DIR}"
    LINK_LIBRARIES "${HWLOC_STATIC_LIBRARY}" m ${CMAKE_DL_LIBS} Threads::Threads)
endif()
if(HWLOC_STATIC_LINKS)
  set(HWLOC_LIBRARY "${HWLOC_STATIC_LIBRARY}")
  set(HWLOC_NEEDS no_udev m ${CMAKE_DL_LIBS} Threads::Threads)
elseif(HWLOC_SHARED_LIBRARY)
  set(HWLOC_LIBRARY "${HWLOC_SHARED_LIBRARY}")
else()
  message(FATAL_ERROR "hwloc's library is missing (Debian: libhwloc-dev)")
endif()
add_library(hwloc UNKNOWN IMPORTED)
set_target_properties(hwloc PROPERTIES
  IMPORTED_LOCATION "${HWLOC_LIBRARY}"
  INTERFACE_INCLUDE_DIRECTORIES "${HWLOC_INCLUDE_DIR}"
  INTERFACE_LINK_LIBRARIES "${HWLOC_NEEDS}")

# Asio is used header-only and without Boost's own libraries.
add_library(ddprun_asio INTERFACE)
target_link_libraries(ddprun_asio INTERFACE Boost::headers Threads::Threads)
target_compile_definitions(ddprun_asio INTERFACE
  BOOST_ASIO_NO_DEPRECATED BOOST_ASIO_DISABLE_THREADS BOOST_ERROR_CODE_HEADER_ONLY)
