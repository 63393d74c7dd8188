"""The wheel, where people have Python: virtual environments, prefixes that nobody activates, pipx."""

from __future__ import annotations

import re
import shutil
import zipfile
from pathlib import Path

import pytest

from conftest import Packages, call
from support.programs import REPOSITORY

PYTHON = "/usr/bin/python3"


def files_below(folder: Path) -> set[str]:
    """Without Python's cache of compiled files, which belongs to whoever imports; pip keeps folders that it made."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")
            if not path.is_dir() and "__pycache__" not in path.parts}


@pytest.fixture
def wheel(packages: Packages) -> Path:
    return packages.wheel


@pytest.fixture(params=["virtual environment", "prefix with a python of its own"])
def environment(request, tmp_path) -> Path:
    folder = tmp_path / "an environment"
    call(PYTHON, "-m", "venv", *(["--copies"] if request.param.startswith("prefix") else []), folder)
    return folder


def test_the_wheel_trains_in_an_environment_that_is_not_activated_and_leaves_nothing(wheel, environment, train):
    before = files_below(environment)
    pip = [environment / "bin" / "python", "-m", "pip", "--disable-pip-version-check"]
    call(*pip, "install", "--no-index", wheel)
    ddprun = environment / "bin" / "ddprun"
    version = call(ddprun, "--version")
    assert version.startswith("ddprun ")
    assert call(environment / "bin" / "python", "-m", "ddprun", "--version") == version
    assert ddprun.read_bytes()[:4] == b"\x7fELF", "a script would start Python before ddprun"
    train(ddprun)
    call(*pip, "uninstall", "--yes", "ddprun")
    assert files_below(environment) == before


def test_the_wheels_program_takes_the_python_of_its_environment(wheel, environment, tmp_path):
    call(environment / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install", "--no-index", wheel)
    script = tmp_path / "prefix.py"
    script.write_text("import sys; print('prefix', sys.prefix)\n")
    printed = call(environment / "bin" / "ddprun", "--nproc-per-node", "2", script, cwd=tmp_path,
                   env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})
    assert printed.count(f"prefix {environment}\n") == 2


def test_the_wheels_package_launches_functions_with_its_program(wheel, environment, tmp_path):
    call(environment / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install", "--no-index", wheel)
    (tmp_path / "values.py").write_text("""import os, sys, ddprun
def place():
    return os.environ["RANK"], sys.prefix
if __name__ == "__main__":
    print(ddprun.launch(place, 2))
    print(ddprun.run(["--version"], capture=True).stdout.split()[0])
""")
    printed = call(environment / "bin" / "python", "values.py", cwd=tmp_path, env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})
    assert printed.splitlines() == [str([("0", str(environment)), ("1", str(environment))]), "ddprun"]


def test_the_first_command_of_the_readme_installs_ddprun(packages, environment, tmp_path):
    readme = (REPOSITORY / "README.md").read_text()
    line = re.search(r"\n## Get it\n.*?\n    (pip install [^\n]*)", readme, re.DOTALL)[1]
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "packages").symlink_to(packages.folder)
    call("sh", "-euc", f"{line} && ddprun --version", cwd=tmp_path,
         env={"PATH": f"{environment / 'bin'}:/usr/bin:/bin", "HOME": str(tmp_path)})


def test_pipx_installs_the_wheel_and_removes_it(wheel, tmp_path, train):
    if shutil.which("pipx") is None:
        pytest.skip("pipx is not installed")
    places = {"PIPX_HOME": str(tmp_path / "pipx"), "PIPX_BIN_DIR": str(tmp_path / "bin"), "HOME": str(tmp_path),
              "PATH": "/usr/bin:/bin", "PIPX_DEFAULT_PYTHON": PYTHON}
    call("/usr/bin/pipx", "install", wheel, env=places)
    train(tmp_path / "bin" / "ddprun")
    call("/usr/bin/pipx", "uninstall", "ddprun", env=places)
    assert not list((tmp_path / "bin").iterdir())


def test_the_wheel_has_one_program_and_the_python_that_runs_it_as_a_module(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    programs = [name for name in names if name.endswith(".data/scripts/ddprun")]
    python = sorted(name for name in names if name.endswith(".py"))
    source = REPOSITORY / "packaging" / "wheel"
    modules = sorted(str(path.relative_to(source)) for path in source.glob("ddprun/**/*.py"))
    assert len(programs) == 1 and python == modules and "ddprun/py.typed" in names
    assert "ddprun/checkpoint/__init__.py" in modules
    metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
    assert b"\nRequires-Dist:" not in zipfile.ZipFile(wheel).read(metadata)
