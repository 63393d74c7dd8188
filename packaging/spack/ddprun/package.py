# Copyright the ddprun authors
# SPDX-License-Identifier: BSD-3-Clause
#
# For Spack: packages/ddprun/package.py of a repository.

from spack_repo.builtin.build_systems.cmake import CMakePackage, generator

from spack.package import *


class Ddprun(CMakePackage):
    """Starts PyTorch jobs on one machine or a whole allocation: a native
    replacement of torchrun that detects the nodes and ranks of schedulers and
    MPI launchers."""

    homepage = "https://github.com/OWNER/ddprun"
    url = "https://github.com/OWNER/ddprun/releases/download/v0.0.0/ddprun-0.0.0.tar.gz"
    git = "https://github.com/OWNER/ddprun.git"

    license("BSD-3-Clause")

    version("main", branch="main")
    version("0.2.0", sha256="0000000000000000000000000000000000000000000000000000000000000000")

    generator("ninja")

    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("boost@1.74:", type="build")
    depends_on("cli11", type="build")
    depends_on("nlohmann-json", type="build")
    depends_on("fmt")
    depends_on("hwloc@2:")
    depends_on("libsodium")
    depends_on("spdlog+fmt_external")

    requires("platform=linux", msg="ddprun starts processes by Linux' own system calls")

    def cmake_args(self):
        return [self.define("DDPRUN_TESTS", False)]

    def test_version(self):
        """the program starts and prints its version"""
        program = Executable(self.prefix.bin.ddprun)
        assert "ddprun " in program("--version", output=str.split, error=str.split)
