#include "staging/manifest.hpp"

#include "base/error.hpp"
#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::staging;

namespace {

Entry entry(const std::string& path, Kind kind, std::uint64_t size = 0, const std::string& target = "") {
  return {path, kind, 0755, size, 1700000000, 123456789, target};
}

Manifest venv() {
  return {"/shared/venv",
          "/gpfs/u/venv",
          {entry("", Kind::folder), entry("bin", Kind::folder),
           entry("bin/python", Kind::symbolic_link, 0, "/usr/bin/python3"), entry("bin/pip", Kind::file, 200),
           entry("bin/pip3", Kind::hard_link, 0, "bin/pip"), entry("empty", Kind::file),
           entry("pyvenv.cfg", Kind::file, 80)}};
}

bool is_refused(const Manifest& manifest) {
  try {
    decode(encode(manifest));
    return false;
  } catch (const Error&) {
    return true;
  }
}

Manifest with(Entry added) {
  Manifest manifest = venv();
  manifest.entries.push_back(std::move(added));
  return manifest;
}

}  // namespace

TEST_CASE("a list of files is read as it was written") {
  CHECK(decode(encode(venv())) == venv());
  const Manifest file{"/images/a.sif", "/images/a.sif", {entry("", Kind::file, std::uint64_t{1} << 40)}};
  CHECK(decode(encode(file)) == file);
}

TEST_CASE("a list whose paths lead out of the copy is refused") {
  CHECK_FALSE(is_refused(with(entry("bin/b", Kind::file))));
  for (const char* path :
       {"../b", "/b", "bin/../../b", "bin//b", "bin/./b", "bin/", "missing/b", "bin/pip/b", "bin/python/b"})
    CHECK(is_refused(with(entry(path, Kind::file))));
  CHECK(is_refused(with(entry("bin/pip", Kind::file))));  // twice
  CHECK(is_refused(with(entry("", Kind::file))));
  CHECK(is_refused(with(entry("bin/b", Kind::hard_link, 0, "../../etc/passwd"))));
  Manifest manifest = venv();
  manifest.source = "relative";
  CHECK(is_refused(manifest));
  manifest.source = "/shared/..";
  CHECK(is_refused(manifest));
  manifest = venv();
  manifest.entries.front().mode = 04755;
  CHECK(is_refused(manifest));
  manifest.entries.clear();
  CHECK(is_refused(manifest));
}

TEST_CASE("a list that is cut off is refused") {
  const std::string whole = encode(venv());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    std::size_t entries = 0;
    try {
      entries = decode(std::string_view(whole).substr(0, size)).entries.size();
    } catch (const Error&) {
      continue;
    }
    CHECK(entries < venv().entries.size());  // where an entry ends
  }
}

TEST_CASE("the contents are those of the files, one after the other") {
  CHECK(content_offsets(venv()) == std::vector<std::uint64_t>{0, 0, 0, 0, 200, 200, 200, 280});
  CHECK(content_size(venv()) == 280);
  CHECK(count_files(venv()) == 3);
}

TEST_CASE("what is to be executed shows in the list") {
  CHECK(is_executed(venv()));
  CHECK_FALSE(is_executed({"/images/a.sif", "/images/a.sif", {entry("", Kind::file, 5)}}));
  CHECK(is_executed({"/data/a.tar.zst", "/data/a.tar.zst", {entry("", Kind::file, 5)}}));
  Entry library = entry("libc10.so.2", Kind::file, 5);
  library.mode = 0644;
  CHECK(is_executed({"/d", "/d", {entry("", Kind::folder), library}}));
  library.path = "data.bin";
  CHECK_FALSE(is_executed({"/d", "/d", {entry("", Kind::folder), library}}));
}

TEST_CASE("tars are known by their names") {
  for (const char* name : {"/a.tar", "/a.tar.gz", "/a.tgz", "/a.tar.zst"}) CHECK(is_archive(name));
  for (const char* name : {"/a.sqsh", "/a.sif", "/a.zip", "/tar", "/a.tar/b"}) CHECK_FALSE(is_archive(name));
}
