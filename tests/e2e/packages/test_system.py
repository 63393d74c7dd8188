"""The tar.gz in an empty folder, .deb and .rpm on a root of their own, and what all packages have in common."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import EXAMPLE, Packages, call, make, programs_in
from support.programs import REPOSITORY

# What dpkg, rpm and the index of manuals write for any package.
BOOKKEEPING = re.compile(r"var/(lib/(dpkg|rpm)|cache/(man|ldconfig)|log)/.*|(root|usr/lib/sysimage)/.*rpm.*")


class Root:
    """This machine's file system with a layer of its own on top, which holds whatever is changed in it."""

    def __init__(self, folder: Path):
        self.layer = folder / "layer"
        self.merged = folder / "merged"
        for path in (self.layer, folder / "work", self.merged):
            path.mkdir()
        self.mount = (f"mount -t overlay overlay -o lowerdir=/,upperdir={self.layer},workdir={folder / 'work'} "
                      f"{self.merged} && mount --rbind /dev {self.merged}/dev && mount -t proc proc {self.merged}/proc")

    def run(self, script: str, *, check: bool = True) -> subprocess.CompletedProcess:
        result = subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-euc",
             f'{self.mount} && exec chroot {self.merged} sh -euc "$1"', "sh", script],
            text=True, capture_output=True, timeout=300)
        assert not check or result.returncode == 0, result.stdout + result.stderr
        return result

    def left(self) -> list[str]:
        """Files that the layer has beside what dpkg and rpm write down."""
        names = (str(path.relative_to(self.layer)) for path in self.layer.rglob("*") if not path.is_dir())
        return [name for name in names if not BOOKKEEPING.fullmatch(name)]


@pytest.fixture
def root(tmp_path_factory) -> Iterator[Root]:
    # Not below /tmp of the overlay's own lower folder on hosts whose /tmp is an overlay already.
    folder = tmp_path_factory.mktemp("root")
    if os.geteuid() != 0:
        pytest.skip("a root of its own needs root")
    made = Root(folder)
    if made.run("true", check=False).returncode != 0:
        pytest.skip("the kernel gives no overlay here")
    yield made
    shutil.rmtree(folder, ignore_errors=True)


def training(torch_python: Path) -> str:
    return (f"mkdir -p /root/try && cd /root/try && env -i PATH=/usr/bin:/bin HOME=/root/try PYTHON_EXEC={torch_python} "
            f"/usr/bin/ddprun --nproc-per-node 2 {EXAMPLE} --steps 5 && cd / && rm -rf /root/try")


def test_the_archive_trains_from_an_empty_folder_with_an_empty_environment(packages: Packages, tmp_path, train):
    folder = tmp_path / "a place of its own"
    folder.mkdir()
    call("tar", "-xzf", packages.one("ddprun-*-linux-x86_64.tar.gz"), "-C", folder, "--strip-components=1")
    assert sorted(path.name for path in folder.iterdir()) == ["bin", "share"]
    assert call(folder / "bin" / "ddprun", "--version", env={}).startswith("ddprun ")
    train(folder / "bin" / "ddprun")


def test_the_deb_trains_and_leaves_nothing(packages: Packages, root, torch_python):
    deb = packages.one("*_amd64.deb")
    result = root.run(f"dpkg --install {deb} && ddprun --version && test -e /usr/share/man/man1/ddprun.1.gz && "
                      f"{training(torch_python)} && dpkg --purge ddprun && test ! -e /usr/bin/ddprun")
    assert "step" in result.stdout, result.stdout + result.stderr
    assert root.left() == []


def test_the_rpm_trains_and_leaves_nothing(packages: Packages, root, torch_python):
    if shutil.which("rpm") is None:
        pytest.skip("rpm is not installed")
    rpm = packages.one("*.x86_64.rpm")
    # This root is Debian's: its rpm has no record of a glibc.
    result = root.run(f"rpm --install --nodeps {rpm} && ddprun --version && {training(torch_python)} && "
                      "rpm --erase ddprun && test ! -e /usr/bin/ddprun")
    assert "step" in result.stdout, result.stdout + result.stderr
    assert root.left() == []


def test_the_deb_and_the_rpm_need_glibc_and_nothing_else(packages: Packages):
    assert call("dpkg-deb", "--field", packages.one("*_amd64.deb"), "Depends") == f"libc6 (>= {packages.glibc})\n"
    if shutil.which("rpm") is not None:
        needed = call("rpm", "--query", "--package", "--requires", packages.one("*.x86_64.rpm")).splitlines()
        assert [name for name in needed if not name.startswith("rpmlib(")] == [f"glibc >= {packages.glibc}"]


def test_all_packages_hold_the_same_program(packages: Packages, tmp_path):
    programs = programs_in(packages.folder, "x86_64", "amd64", tmp_path)
    assert len({path.read_bytes() for path in programs.values()}) == 1


def test_the_program_needs_no_newer_glibc_than_the_packages_say_and_no_other_library(packages: Packages, tmp_path):
    call("dpkg-deb", "--extract", packages.one("*_amd64.deb"), tmp_path)
    program = tmp_path / "usr" / "bin" / "ddprun"
    dump = call("objdump", "-p", program)
    newest = max(tuple(map(int, version.split("."))) for version in re.findall(r"GLIBC_([0-9.]+)", dump))
    assert newest[:2] <= tuple(map(int, packages.glibc.split(".")))
    assert set(re.findall(r"NEEDED +(lib\w+)", dump)) <= {"libc", "libm", "libdl", "libpthread", "librt", "libutil", "libresolv"}
    assert "RUNPATH" not in dump
    assert str(REPOSITORY).encode() not in program.read_bytes()
    if packages.glibc == "2.28":
        assert " with glibc 2.28 " in call(program, "--version")


def test_every_file_has_the_time_of_the_commit(packages: Packages):
    """Not that of a checkout, in which two builds would differ: rpm keeps what is older than the commit."""
    if packages.how is None:
        pytest.skip("the packages were made elsewhere")
    if shutil.which("rpm") is None:
        pytest.skip("rpm is not installed")
    times = call("rpm", "--query", "--package", "--queryformat", "[%{FILEMTIMES}\n]", packages.one("*.x86_64.rpm")).split()
    assert set(times) == {call("git", "-C", REPOSITORY, "show", "-s", "--format=%ct", "HEAD").strip()}


def test_the_archives_of_one_program_are_equal_byte_by_byte(packages: Packages, tmp_path):
    """Two builds of the portable program take minutes: DDPRUN_TEST_REPRODUCIBLE=1 makes another, in another folder."""
    if packages.how is None:
        pytest.skip("the packages were made elsewhere")
    more = ["--build", str(tmp_path / "build")] if os.environ.get("DDPRUN_TEST_REPRODUCIBLE") else []
    make(tmp_path / "again", *packages.how, *more)
    again = {path.name: path.read_bytes() for path in (tmp_path / "again").iterdir()}
    assert len(again) == 5
    assert {name: packages.one(name).read_bytes() == content for name, content in again.items()} == \
        dict.fromkeys(again, True)
