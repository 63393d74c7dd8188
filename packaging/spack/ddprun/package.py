# A package for Spack: put this folder into `packages` of a repository of yours. It builds from a checkout:
#   spack dev-build ddprun@main
from spack.package import *


class Ddprun(CMakePackage):
    """Starts PyTorch jobs on one machine or a whole allocation."""

    license("BSD-3-Clause")

    version("main")

    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("boost@1.74:", type="build")
    depends_on("cli11", type="build")
    depends_on("fmt", type="build")
    depends_on("nlohmann-json", type="build")
    depends_on("spdlog+fmt_external", type="build")
    depends_on("libsodium")
    depends_on("hwloc@2:")

    generator("ninja")

    def cmake_args(self):
        return [self.define("DDPRUN_TESTS", False), self.define("DDPRUN_HARDEN", True)]

    def test_version(self):
        """the program starts"""
        out = Executable(self.prefix.bin.ddprun)("--version", output=str.split)
        assert "ddprun" in out
