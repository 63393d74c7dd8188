"""scripts/release refuses what is not ready, and a dry run prints all steps; the version and the changelog agree everywhere."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from support.programs import REPOSITORY

CHANGELOG = (REPOSITORY / "CHANGELOG.md").read_text()


def run(*command, cwd: Path = REPOSITORY) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in command], cwd=cwd, text=True, capture_output=True, timeout=60)


def test_all_files_have_the_version_of_cmake():
    result = run(REPOSITORY / "packaging" / "version", "check")
    assert result.returncode == 0, result.stderr


def test_the_changelog_has_a_page_for_each_release_and_begins_with_what_is_not_released():
    headings = re.findall(r"^## (.*)$", CHANGELOG, re.MULTILINE)
    assert headings[0] == "Unreleased" and re.fullmatch(r"\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d", headings[1])
    assert all(len(section.splitlines()) <= 61 for section in CHANGELOG.split("\n## ")[2:])


@pytest.mark.parametrize("page", ["CHANGELOG.md", "SECURITY.md"])
def test_every_link_of_the_pages_for_releases_leads_to_a_file(page):
    targets = re.findall(r"\]\(([^)\s]+)\)", (REPOSITORY / page).read_text())
    assert targets and all((REPOSITORY / target).exists() for target in targets)


@pytest.fixture
def checkout(tmp_path) -> Path:
    """A repository with what scripts/release looks at, ready to be released as 1.2.3."""
    folder = tmp_path / "checkout"
    for name in ("scripts/release", "CMakeLists.txt", "CITATION.cff", "pyproject.toml", "man", "packaging"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        assert run("cp", "-r", REPOSITORY / name, folder / name).returncode == 0
    addresses = r"s,github\.com/[[:alnum:]-]*/ddprun,github.com/somebody/ddprun,g; s/\bOWNER\b/somebody/g"
    run("sh", "-c", f"find packaging man [Cp]*.* -type f | xargs sed -i '{addresses}'", cwd=folder)
    (folder / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n## 1.2.3 - 2026-01-31\n\n- [Faster](docs/a.md)\n  starts.\n- Less.\n")
    assert run(folder / "packaging" / "version", "set", "1.2.3").returncode == 0
    for command in ("init", "config user.name tests", "config user.email tests@localhost", "config commit.gpgsign false",
                    "config user.signingkey none", "add .", "commit --quiet -m ready"):
        assert run("git", *command.split(), cwd=folder).returncode == 0
    return folder


def release(checkout: Path, *arguments: str) -> subprocess.CompletedProcess:
    return run(checkout / "scripts" / "release", *arguments, cwd=checkout)


@pytest.mark.parametrize("arguments", [[], ["--dryrun"], ["1.2"], ["1.2.3", "1.2.4"], ["1.2.3", "--tests-passed"]])
def test_arguments_that_it_does_not_have_print_the_usage(checkout, arguments):
    result = release(checkout, *arguments)
    assert result.returncode == 2 and "scripts/release 1.2.3 --dry-run" in result.stdout + result.stderr


def test_a_dry_run_prints_each_step_and_does_nothing(checkout):
    before = run("git", "status", "--porcelain", "--ignored", cwd=checkout).stdout
    result = release(checkout, "1.2.3", "--dry-run")
    assert result.returncode == 0 and result.stderr == ""
    steps = ["scripts/nightly", "--processor x86_64", "--processor aarch64", "archive_source", "archive_recipes", "write_sums",
             "tests/e2e/packages", "sign_tag", "git push origin v1.2.3"]
    places = [result.stdout.index(step) for step in steps]
    assert places == sorted(places)
    assert run("git", "status", "--porcelain", "--ignored", cwd=checkout).stdout == before
    assert not (checkout / "build").exists() and run("git", "tag", cwd=checkout).stdout == ""


def test_tests_that_have_passed_for_this_commit_are_not_run_again(checkout):
    result = release(checkout, "1.2.3", "--dry-run", "--tests-passed", "HEAD")
    assert result.stderr == "" and "scripts/nightly" not in result.stdout


@pytest.mark.parametrize("change, version, sentence", [
    ("touch new", "1.2.3", "the checkout has changes that are not committed"),
    ("true", "1.2.4", "CMakeLists.txt has the version 1.2.3, not 1.2.4"),
    ("sed -i 's/^version: .*/version: 1.2.2/' CITATION.cff; git commit -qam x", "1.2.3",
     "not 1.2.3 as in CMakeLists.txt: CITATION.cff"),
    ("sed -i 's/## 1.2.3.*/## 1.2.3/' CHANGELOG.md; git commit -qam x", "1.2.3",
     "CHANGELOG.md has no section '## 1.2.3 - YYYY-MM-DD'"),
    ("sed -i '/^## 1/,$ {/^## /!d}' CHANGELOG.md; git commit -qam x", "1.2.3", "the section 1.2.3 of CHANGELOG.md is empty"),
    ("sed -i s/somebody/OWNER/ pyproject.toml; git commit -qam x", "1.2.3",
     "the address github.com/OWNER/ddprun is a placeholder in 1 files"),
    ("git tag v1.2.3", "1.2.3", "the tag v1.2.3 exists"),
    ("git config --unset user.signingkey", "1.2.3", "git has no key to sign the tag with")])
def test_what_is_not_ready_is_refused_with_a_hint(checkout, change, version, sentence):
    assert run("sh", "-euc", change, cwd=checkout).returncode == 0
    result = release(checkout, version)
    assert result.returncode == 1
    assert re.fullmatch(f"release: {re.escape(sentence)}\nhint: [^\n]+\n", result.stderr), result.stderr


def test_the_notes_are_the_section_of_the_version_with_links_to_its_pages(checkout):
    (checkout / "build" / "release-files").mkdir(parents=True)
    script = (checkout / "scripts" / "release").read_text().split("\ncheck\n")[0]
    script = script.replace('cd "$(dirname "$0")/.."', "") + "\nnotes\n"
    result = run("bash", "-c", script, "release", "1.2.3", cwd=checkout)
    assert result.stdout == "- [Faster](https://github.com/somebody/ddprun/blob/v1.2.3/docs/a.md) starts.\n- Less.\n", result.stderr


def test_a_release_signs_the_tag_with_notes_and_sums(checkout):
    """With packages of one byte: what builds and tests them is replaced."""
    key = checkout.parent / "key"
    if run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).returncode != 0:
        pytest.skip("ssh-keygen is not installed")
    scripts = {"package": 'for kind in whl tar.gz deb rpm json; do echo "$3" > "$5/ddprun-1.2.3-linux-$3.$kind"; done',
               "nightly": "true", "pytest": "true", "torch-python": "echo python3"}
    for name, text in scripts.items():
        (checkout / "scripts" / name).write_text(f"#!/bin/sh\nset -eu\n{text}\n")
        (checkout / "scripts" / name).chmod(0o755)
    path = checkout / "scripts" / "release"
    path.write_text(path.read_text().replace("/usr/bin/python3 -m pytest", "scripts/pytest"))
    (checkout / ".gitignore").write_text("/build/\n")
    for command in ("add .", "commit --quiet -m ready", "config gpg.format ssh", f"config user.signingkey {key}"):
        assert run("git", *command.split(), cwd=checkout).returncode == 0
    result = release(checkout, "1.2.3")
    assert result.returncode == 0, result.stderr
    assert result.stdout.endswith("git push origin v1.2.3\n")
    body = run("git", "tag", "--list", "--format=%(contents:body)", "v1.2.3", cwd=checkout).stdout
    sums = "".join(line + "\n" for line in body.splitlines() if re.match(r"[0-9a-f]{64}  ", line))
    assert sums == (checkout / "build" / "release-files" / "SHA256SUMS").read_text()
    assert "- [Faster](" in body and " recipes-1.2.3.tar.gz" in sums and " ddprun-1.2.3.tar.gz" in sums
    assert "BEGIN SSH SIGNATURE" in run("git", "cat-file", "tag", "v1.2.3", cwd=checkout).stdout
