#include "net/sealed_stream.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::net;

namespace {

SecretKey key(std::uint8_t byte) {
  SecretKey key;
  key.fill(byte);
  return key;
}

std::vector<std::string> texts_of(SealedReader& reader) {
  std::vector<std::string> texts;
  for (auto item = reader.next(); std::holds_alternative<std::string>(item); item = reader.next())
    texts.push_back(std::get<std::string>(item));
  return texts;
}

std::string error_of(SealedReader& reader) {
  const auto item = reader.next();
  const auto* error = std::get_if<rendezvous::CodecError>(&item);
  return error == nullptr ? std::string() : error->what;
}

const std::string k_changed = "a message altered in transit";

}  // namespace

TEST_CASE("pieces survive the way, however the bytes are cut") {
  SealedWriter writer(key(1));
  const std::vector<std::string> texts{"one", "", std::string(k_max_piece, 'x'), "four"};
  std::string bytes;
  for (const std::string& text : texts) bytes += writer.seal(text);
  for (const std::size_t piece : {std::size_t{1000}, std::size_t{7}, bytes.size()}) {
    SealedReader reader(key(1));
    std::vector<std::string> found;
    for (std::size_t i = 0; i < bytes.size(); i += piece) {
      reader.append(std::string_view(bytes).substr(i, piece));
      for (std::string& text : texts_of(reader)) found.push_back(std::move(text));
    }
    CHECK(found == texts);
  }
}

TEST_CASE("what follows the last piece is handed on as it is") {
  SealedReader reader(key(1));
  reader.append(SealedWriter(key(1)).seal("hello") + "plain");
  CHECK(std::get<std::string>(reader.next()) == "hello");
  CHECK(reader.take_rest() == "plain");
}

TEST_CASE("a piece that is changed, repeated, left out or out of order ends the stream") {
  SealedWriter writer(key(1));
  const std::string first = writer.seal("first");
  const std::string second = writer.seal("second");
  const std::string third = writer.seal("third");
  const auto read = [&](const std::string& bytes) {
    SealedReader reader(key(1));
    reader.append(bytes);
    texts_of(reader);
    return error_of(reader);
  };
  CHECK(read(first + second + third).empty());
  CHECK(read(first + third) == k_changed);
  CHECK(read(first + second + second) == k_changed);
  for (std::size_t i = 28; i < first.size(); ++i) {
    std::string changed = first;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    CHECK(read(changed) == k_changed);
  }
}

TEST_CASE("another key opens nothing, and a length past the limit is an error") {
  SealedReader other(key(2));
  other.append(SealedWriter(key(1)).seal("hello"));
  CHECK(error_of(other) == k_changed);
  SealedReader reader(key(1));
  reader.append(std::string(24, '\1') + "\xff\xff\xff\xff");
  CHECK(error_of(reader).starts_with("a message of 4294967295 bytes"));
}
