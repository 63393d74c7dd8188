"""The recipes for Spack, EasyBuild, Lmod and Apptainer name files, versions and options that exist. What their own linters say is
in tests/e2e/packages/test_linters.py."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess

import pytest

from support.programs import REPOSITORY

PACKAGING = REPOSITORY / "packaging"
VERSION = re.search(r"project\(ddprun VERSION ([0-9.]+)", (REPOSITORY / "CMakeLists.txt").read_text())[1]
ARCHIVE = f"ddprun-{VERSION}-linux-x86_64.tar.gz"


def test_the_easybuild_recipe_unpacks_the_archive_of_this_version():
    path = PACKAGING / "easybuild" / f"ddprun-{VERSION}.eb"
    values = {node.targets[0].id: ast.unparse(node.value) for node in ast.parse(path.read_text()).body}
    assert values["version"] == f"'{VERSION}'"
    source = ast.literal_eval(values["sources"])[0]
    assert source % {"name": "ddprun", "version": VERSION, "arch": "x86_64"} == ARCHIVE


def test_the_spack_recipe_is_python_and_sets_options_of_cmake_that_exist():
    text = (PACKAGING / "spack" / "ddprun" / "package.py").read_text()
    ast.parse(text)
    cmake = "".join(path.read_text() for path in [REPOSITORY / "CMakeLists.txt",
                                                  *(REPOSITORY / "scripts" / "cmake").glob("*.cmake")])
    options = re.findall(r'self\.define\("(\w+)"', text)
    assert options and all(f"option({name} " in cmake for name in options)


def test_the_spack_recipe_is_a_package_of_this_version():
    """With a stand-in of Spack that notes the directives: Spack itself is in no package registry."""
    noted = []

    def directive(name):
        return lambda *arguments, **more: noted.append((name, *arguments, more))

    names = {name: directive(name) for name in ("depends_on", "generator", "license", "requires", "version")}
    package = type("CMakePackage", (), {"define": lambda self, name, value: f"-D{name}={'ON' if value else 'OFF'}"})
    text = (PACKAGING / "spack" / "ddprun" / "package.py").read_text()
    without_imports = re.sub(r"^from .*$", "", text, flags=re.MULTILINE)
    exec(compile(without_imports, "package.py", "exec"), made := {**names, "CMakePackage": package, "Executable": None})
    recipe = made["Ddprun"]
    versions = {arguments[0] for name, *arguments in noted if name == "version"}
    assert versions == {"main", VERSION} and recipe.homepage in recipe.url and recipe.homepage in recipe.git
    assert ("license", "BSD-3-Clause", {}) in noted and recipe.cmake_args(recipe()) == ["-DDDPRUN_TESTS=OFF"]
    needed = {re.match(r"[\w-]+", arguments[0])[0] for name, *arguments in noted if name == "depends_on"}
    assert needed == {"boost", "cli11", "cmake", "cxx", "fmt", "hwloc", "libsodium", "nlohmann-json", "spdlog"}


def test_the_modulefile_is_lua_of_this_version():
    path = PACKAGING / "lmod" / "ddprun.lua"
    assert f'whatis("Version: {VERSION}")' in path.read_text() and f"/ddprun/{VERSION}" in path.read_text()
    luac = next((name for name in ("luac", "luac5.4", "luac5.3") if shutil.which(name)), None)
    if luac is None:
        pytest.skip("luac is not installed")
    assert subprocess.run([luac, "-p", path]).returncode == 0


def test_the_apptainer_fragment_copies_the_archive_of_this_version():
    assert f"    {ARCHIVE} " in (PACKAGING / "apptainer" / "ddprun.def").read_text()


def test_scripts_of_packaging_are_shell_without_errors():
    for path in [PACKAGING / "portable" / "sysroot", REPOSITORY / "scripts" / "release"]:
        assert subprocess.run(["bash", "-n", path]).returncode == 0
