# The compiler of the packages: Clang with a static libc++ for glibc 2.28 (RHEL 8, torch's own wheels), and the
# libraries of packaging/portable/sysroot. scripts/package passes the sysroot.
set(DDPRUN_SYSROOT "" CACHE PATH "What packaging/portable/sysroot made")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES DDPRUN_SYSROOT)

set(CMAKE_SYSTEM_NAME Linux)
file(READ "${DDPRUN_SYSROOT}/processor" CMAKE_SYSTEM_PROCESSOR)
string(STRIP "${CMAKE_SYSTEM_PROCESSOR}" CMAKE_SYSTEM_PROCESSOR)
set(CMAKE_C_COMPILER "${DDPRUN_SYSROOT}/bin/cc")
set(CMAKE_CXX_COMPILER "${DDPRUN_SYSROOT}/bin/c++")
set(CMAKE_AR "${DDPRUN_SYSROOT}/bin/ar")
set(CMAKE_RANLIB "${DDPRUN_SYSROOT}/bin/ranlib")

# Linking compiles libc++ once for each set of flags, minutes of work: CMake is told which compiler it is, its checks link
# nothing, and only the program is linked.
file(READ "${DDPRUN_SYSROOT}/version" CMAKE_CXX_COMPILER_VERSION)
string(STRIP "${CMAKE_CXX_COMPILER_VERSION}" CMAKE_CXX_COMPILER_VERSION)
set(CMAKE_CXX_COMPILER_ID Clang)
set(CMAKE_CXX_COMPILER_ID_RUN TRUE)
set(CMAKE_CXX_COMPILER_FRONTEND_VARIANT GNU)
set(CMAKE_CXX_STANDARD_COMPUTED_DEFAULT 17)
set(CMAKE_CXX_EXTENSIONS_COMPUTED_DEFAULT ON)
set(CMAKE_TRY_COMPILE_CONFIGURATION Release)
set(CMAKE_SKIP_RPATH ON)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(HWLOC_STATIC_LINKS ON CACHE INTERNAL "scripts/cmake/dependencies.cmake")

set(CMAKE_FIND_ROOT_PATH "${DDPRUN_SYSROOT}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

# Boost 1.74 looks for std::result_of, which libc++ no longer has. No path of this machine gets into the program.
# zig writes debugging information unless it is told not to, which is most of the time and the size of an object.
string(APPEND CMAKE_CXX_FLAGS_INIT " -DBOOST_ASIO_HAS_STD_INVOKE_RESULT=1 -g0 -ffunction-sections -fdata-sections"
  " -ffile-prefix-map=${CMAKE_SOURCE_DIR}=. -ffile-prefix-map=${DDPRUN_SYSROOT}=sysroot")
