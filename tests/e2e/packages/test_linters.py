"""What others' tools say about the packages, the recipes, the workflows and the list of what is inside the program.

The tools of linters.txt are installed into build/linters by pip, once; Debian's (lintian, ruby, rubocop, lmod) are used where they
are installed.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from conftest import Packages, call, programs_in
from support.programs import REPOSITORY

PACKAGING = REPOSITORY / "packaging"
GITHUB = REPOSITORY / ".github"
VERSION = call(PACKAGING / "version").strip()
INSIDE = {"libboost-dev", "libcli11-dev", "libfmt-dev", "libhwloc-dev", "libsodium-dev", "libspdlog-dev", "nlohmann-json3-dev"}


@pytest.fixture(scope="session")
def linters() -> Path:
    """The folder of their programs."""
    folder = REPOSITORY / "build" / "linters"
    wanted = (Path(__file__).parent / "linters.txt").read_text()
    installed = folder / "installed.txt"
    if not installed.exists() or installed.read_text() != wanted:
        call("/usr/bin/python3", "-m", "venv", "--clear", folder)
        pip = subprocess.run([folder / "bin" / "pip", "install", "-qq", "--disable-pip-version-check", "-r",
                              Path(__file__).parent / "linters.txt"], text=True, capture_output=True, timeout=250)
        if pip.returncode != 0:
            pytest.skip(f"pip could not install the linters: {pip.stderr.strip().splitlines()[-1]}")
        installed.write_text(wanted)
    return folder / "bin"


def needs(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")


# The packages


def test_pypi_accepts_the_wheel_and_renders_the_readme(linters, packages: Packages):
    assert "PASSED" in call(linters / "twine", "check", "--strict", packages.wheel)
    assert ": OK" in call(linters / "check-wheel-contents", packages.wheel)


def test_the_readme_on_pypi_links_to_the_files_of_this_version(packages: Packages):
    archive = zipfile.ZipFile(packages.wheel)
    [metadata] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    targets = re.findall(r"\]\(([^)\s]+)\)", archive.read(metadata).decode())
    files = [target.split(f"/v{VERSION}/", 1)[1] for target in targets if not target.startswith("#")]
    assert files and all((REPOSITORY / file.partition("#")[0]).exists() for file in files)


def test_lintian_finds_nothing_in_the_deb(packages: Packages):
    needs("lintian")
    found = call("lintian", "--fail-on", "error,warning", "--allow-root", packages.one("*_amd64.deb"))
    assert found == ""


def test_rpmlint_finds_nothing_in_the_rpm(linters, packages: Packages):
    found = call(linters / "rpmlint", "--config", PACKAGING / "rpmlint.toml", packages.one("*.x86_64.rpm"))
    assert re.search(r"0 errors, 0 warnings", found), found


def test_every_package_has_the_licences_of_what_is_inside(packages: Packages, tmp_path):
    for kind in programs_in(packages.folder, "x86_64", "amd64", tmp_path):
        [folder] = [path for path in (tmp_path / kind).rglob("licences") if path.is_dir()]
        names = {path.name for path in folder.iterdir()}
        assert INSIDE <= names and ({"libcxx", "glibc"} <= names or "libstdc++6" in names), (kind, names)
        assert all(path.stat().st_size > 500 for path in folder.iterdir())


# What is inside the program


def sbom(processor: str, folder: Path) -> Path:
    (folder / "version").write_text("21.1.0\n")
    (folder / "zig-version").write_text("0.17.1\n")
    file = folder / f"{processor}.cdx.json"
    file.write_text(call(PACKAGING / "sbom", processor, "--sysroot", folder))
    return file


def test_the_list_of_what_is_inside_is_strict_cyclonedx_and_always_the_same(linters, tmp_path):
    check = ("import sys\nfrom cyclonedx.schema import SchemaVersion\nfrom cyclonedx.validation.json import JsonStrictValidator\n"
             "validator = JsonStrictValidator(SchemaVersion.V1_6)\n"
             "sys.exit('\\n'.join(str(wrong) for name in sys.argv[1:] if (wrong := validator.validate_str(open(name).read()))) or 0)")
    texts = {processor: sbom(processor, tmp_path).read_text() for processor in ("x86_64", "aarch64")}
    call(linters / "python", "-c", check, *(tmp_path / f"{processor}.cdx.json" for processor in texts))
    assert all(sbom(processor, tmp_path).read_text() == text for processor, text in texts.items())


def test_the_list_of_what_is_inside_has_the_versions_that_are_linked(tmp_path):
    parts = json.loads(sbom("aarch64", tmp_path).read_text())["components"]
    for line in (PACKAGING / "portable" / "libraries").read_text().splitlines():
        package, version, architecture, sha256 = line.split()
        [part] = [part for part in parts if f"/{package}@" in part.get("purl", "")]
        if architecture == "arm64":
            assert part["version"] == version and part["hashes"] == [{"alg": "SHA-256", "content": sha256}]
    assert all(part.get("version") and part["licenses"] for part in parts)
    assert len(parts) == len(INSIDE) + 5


# Workflows, forms, the image


def test_actionlint_and_zizmor_find_nothing_in_the_workflows(linters):
    workflows = sorted((GITHUB / "workflows").glob("*.yml"))
    assert {path.stem for path in workflows} >= {"ci", "docs", "nightly", "release"}
    call(linters / "actionlint", *workflows)
    call(linters / "zizmor", "--offline", "--quiet", GITHUB)


@pytest.mark.parametrize("schema, files", [
    ("github-workflows", ".github/workflows/*.yml"), ("dependabot", ".github/dependabot.yml"),
    ("github-issue-config", ".github/ISSUE_TEMPLATE/config.yml"), ("github-issue-forms", ".github/ISSUE_TEMPLATE/[!c]*.yml"),
    ("citation-file-format", "CITATION.cff")])
def test_github_understands_its_files(linters, schema, files):
    found = sorted(REPOSITORY.glob(files))
    assert found
    call(linters / "check-jsonschema", "--builtin-schema", f"vendor.{schema}", *found)


def test_pre_commit_understands_its_configuration(linters):
    call(linters / "pre-commit", "validate-config", REPOSITORY / ".pre-commit-config.yaml")


def test_hadolint_finds_nothing_in_the_image(linters):
    call(linters / "hadolint", PACKAGING / "container" / "Dockerfile")


# Recipes


def test_rattler_build_renders_the_recipe_for_conda_forge(linters):
    render = ("import sys\nfrom rattler_build import Stage0Recipe, VariantConfig\n"
              "variants = VariantConfig({'cxx_compiler': ['gxx'], 'c_stdlib': ['sysroot'], 'c_stdlib_version': ['2.28']})\n"
              "[made] = Stage0Recipe.from_file(sys.argv[1]).render(variants)\npackage = made.recipe.to_dict()['package']\n"
              "print(package['name'], package['version'])")
    assert call(linters / "python", "-c", render, PACKAGING / "conda" / "recipe.yaml") == f"ddprun {VERSION}\n"


def test_easybuild_accepts_its_recipe(linters, tmp_path):
    lmod = Path("/usr/share/lmod/lmod/libexec/lmod")
    if not lmod.exists():
        pytest.skip("lmod is not installed")
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LMOD_CMD": str(lmod), "EB_PYTHON": str(linters / "python"),
                   "EASYBUILD_PREFIX": str(tmp_path), "EASYBUILD_ALLOW_USE_AS_ROOT_AND_ACCEPT_CONSEQUENCES": "1"}
    found = call(linters / "eb", "--check-contrib", PACKAGING / "easybuild" / f"ddprun-{VERSION}.eb", env=environment)
    assert "All contribution checks PASSed" in found


def test_rubocop_finds_nothing_in_the_formula():
    needs("rubocop")
    call("rubocop", "--cache", "false", PACKAGING / "homebrew" / "ddprun.rb")


def test_the_recipe_for_spack_has_the_style_of_spack(linters):
    call(linters / "pycodestyle", "--max-line-length=99", PACKAGING / "spack" / "ddprun" / "package.py")


def test_recipes_get_the_hashes_of_a_release(tmp_path):
    files, made = tmp_path / "files", tmp_path / "made"
    files.mkdir()
    for archive in ("", "-linux-x86_64", "-linux-aarch64"):
        (files / f"ddprun-{VERSION}{archive}.tar.gz").write_text(f"archive{archive}")
    call(PACKAGING / "recipes", files, made)
    texts = {path.relative_to(made).as_posix(): path.read_text() for path in made.rglob("*.*") if path.is_file()}
    assert sorted(texts) == ["conda/recipe.yaml", f"easybuild/ddprun-{VERSION}.eb", "homebrew/ddprun.rb", "spack/ddprun/package.py"]
    assert not any("0" * 64 in text for text in texts.values())
    sums = dict(reversed(line.split()) for line in call("sha256sum", *sorted(p.name for p in files.iterdir()), cwd=files).splitlines())
    assert sums[f"ddprun-{VERSION}.tar.gz"] in texts["conda/recipe.yaml"]
    assert f"'ddprun-{VERSION}-linux-aarch64.tar.gz': '{sums[f'ddprun-{VERSION}-linux-aarch64.tar.gz']}'" in \
        texts[f"easybuild/ddprun-{VERSION}.eb"]
