# The flags every target of ours is built with, as one interface target.
set(DDPRUN_SANITIZE "" CACHE STRING "Sanitizers, comma separated")
option(DDPRUN_WERROR "Warnings are errors" OFF)
option(DDPRUN_HARDEN "Hardening flags, static C++ runtime, stripped" OFF)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)

add_library(ddprun_settings INTERFACE)
target_include_directories(ddprun_settings INTERFACE "${PROJECT_SOURCE_DIR}/include")
# In a header, so that a new version compiles what uses it and no more.
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/generated/version_number.hpp" CONTENT "#pragma once
#define DDPRUN_VERSION \"${PROJECT_VERSION}\"
")
target_include_directories(ddprun_settings INTERFACE "${PROJECT_BINARY_DIR}/generated")
target_compile_options(ddprun_settings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Wold-style-cast -Wcast-align
  -Woverloaded-virtual -Wformat=2 -Wimplicit-fallthrough)
if(DDPRUN_WERROR)
  target_compile_options(ddprun_settings INTERFACE -Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(ddprun_settings INTERFACE -Wno-restrict)  # GCC bug 105651: std::string's own code
  endif()
endif()
if(DDPRUN_SANITIZE)
  target_compile_options(ddprun_settings INTERFACE
    -fsanitize=${DDPRUN_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_compile_definitions(ddprun_settings INTERFACE _GLIBCXX_ASSERTIONS)
  target_link_options(ddprun_settings INTERFACE -fsanitize=${DDPRUN_SANITIZE})
endif()
if(DDPRUN_HARDEN)
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
  target_compile_options(ddprun_settings INTERFACE -fstack-protector-strong -D_FORTIFY_SOURCE=2)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|amd64|AMD64")
    target_compile_options(ddprun_settings INTERFACE -fcf-protection)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    target_compile_options(ddprun_settings INTERFACE -mbranch-protection=standard)
  endif()
  target_link_options(ddprun_settings INTERFACE -pie -s -Wl,-z,relro,-z,now -Wl,--gc-sections)
  # The packages' compiler has its C++ runtime inside (packaging/portable).
  if(NOT DDPRUN_SYSROOT)
    target_link_options(ddprun_settings INTERFACE -static-libstdc++ -static-libgcc)
  endif()
endif()
