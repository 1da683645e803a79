// Reads TOML files that users write: every error has a place and a remedy.

#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/error.h"

namespace common {

// One table of a TOML file, which records the place of every value and which
// keys were requested.
//
// Keys are requested with Get (default) or Require (must be present); at the
// end RejectUnknownKeys() reports every key that was not requested as an error,
// with the nearest known name. So the code that reads the keys defines the set
// of known keys.
//
// Errors: every function throws InputError "file:line:column: ...".
class TomlTable {
 public:
  // An empty table without a place: every Get returns its default.
  TomlTable();

  // Each of `settings`, "table.key=value", replaces a value of the file or adds
  // one; a value that is not TOML is a string. In messages, the place of such a
  // value is "--set table.key=value".
  [[nodiscard]] static TomlTable ParseFile(
      const std::filesystem::path& path,
      const std::vector<std::string>& settings = {});
  // `source` names the text in messages.
  [[nodiscard]] static TomlTable ParseString(std::string_view text,
                                             const std::string& source);

  [[nodiscard]] bool Has(std::string_view key) const;
  [[nodiscard]] bool IsTable(std::string_view key) const;
  // The keys in file order.
  [[nodiscard]] std::vector<std::string> Keys() const;
  // The folder of the file this table was read from; relative paths in it
  // are relative to that folder.
  [[nodiscard]] std::filesystem::path Folder() const;

  // Scalars. GetDouble accepts integers.
  [[nodiscard]] std::string RequireString(std::string_view key) const;
  [[nodiscard]] std::string GetString(std::string_view key,
                                      const std::string& otherwise) const;
  [[nodiscard]] std::int64_t RequireInt(std::string_view key) const;
  [[nodiscard]] std::int64_t GetInt(std::string_view key,
                                    std::int64_t otherwise) const;
  [[nodiscard]] double RequireDouble(std::string_view key) const;
  [[nodiscard]] double GetDouble(std::string_view key, double otherwise) const;
  // Numbers within bounds: an integer or a number from `least` to `most`, a
  // finite number above 0, one of 0 or more.
  [[nodiscard]] int RequireIntIn(
      std::string_view key, int least,
      int most = std::numeric_limits<int>::max()) const;
  [[nodiscard]] int GetIntIn(std::string_view key, int otherwise, int least,
                             int most = std::numeric_limits<int>::max()) const;
  [[nodiscard]] double RequirePositive(std::string_view key) const;
  [[nodiscard]] double GetPositive(std::string_view key,
                                   double otherwise) const;
  [[nodiscard]] double GetNotNegative(std::string_view key,
                                      double otherwise) const;
  [[nodiscard]] double GetDoubleIn(std::string_view key, double otherwise,
                                   double least, double most) const;
  [[nodiscard]] bool GetBool(std::string_view key, bool otherwise) const;
  // A string that is one of `known`, names of a `what`: "backend".
  [[nodiscard]] std::string RequireOneOf(
      std::string_view key, std::string_view what,
      std::span<const std::string> known) const;
  // A scalar of any type as text: "gpt", "16", "0.5", "true".
  [[nodiscard]] std::string RequireText(std::string_view key) const;

  // Lists. A scalar counts as a list of one; a missing key is an empty list.
  // Flags in GetInts are 0 and 1.
  [[nodiscard]] std::vector<std::string> GetStrings(std::string_view key) const;
  [[nodiscard]] std::vector<std::string> GetSomeOf(
      std::string_view key, std::string_view what,
      std::span<const std::string> known) const;
  [[nodiscard]] std::vector<std::int64_t> GetInts(std::string_view key) const;
  [[nodiscard]] std::vector<double> GetDoubles(std::string_view key) const;

  // A sub-table; an empty one (with the place of the parent) if the key is
  // missing.
  [[nodiscard]] TomlTable GetTable(std::string_view key) const;
  [[nodiscard]] TomlTable RequireTable(std::string_view key) const;
  // An array of tables ([[key]]); a single table counts as a list of one.
  [[nodiscard]] std::vector<TomlTable> GetTables(std::string_view key) const;

  // The values that an axis takes. If the key's value is a list: for each
  // element its text ("64", "workloads/bert.json") and this table with that
  // element instead of the list. Otherwise: "" and this table, unchanged.
  [[nodiscard]] std::vector<std::pair<std::string, TomlTable>> Alternatives(
      std::string_view key) const;

  // A value somewhere below a table: its path from there, "a.b", and its text
  // as TOML; a list has one text per element.
  struct Leaf {
    std::string path;
    std::vector<std::string> values;
  };
  // All values below this table in file order. They count as requested.
  [[nodiscard]] std::vector<Leaf> Leaves() const;

  // The content without comments, spacing and order, with the elements that
  // Alternatives chose: equal texts request the same.
  [[nodiscard]] std::string CanonicalText() const;

  // "file:line:column" of the key's value, or of this table.
  [[nodiscard]] std::string Where(std::string_view key) const;
  [[nodiscard]] std::string Where() const;
  // Throws InputError "where: message" at the key's value.
  [[noreturn]] void Fail(std::string_view key,
                         const std::string& message) const;
  // The result of `call`, which reads the key's value: its error gets the
  // place.
  template <typename Call>  // NOLINTNEXTLINE(modernize-use-nodiscard): void
  decltype(auto) At(std::string_view key, const Call& call) const {
    try {
      return call();
    } catch (const std::invalid_argument& e) {
      Fail(key, e.what());
    }
  }

  // Throws unless every key is one of `known`.
  void RequireKeys(const std::vector<std::string>& known) const;
  // Throws unless every key was requested (here and in sub-tables obtained from
  // this object and its copies).
  void RejectUnknownKeys() const;

 private:
  struct Node;
  static TomlTable Parse(std::string_view text, const std::string& source,
                         const std::vector<std::string>& settings);
  explicit TomlTable(std::shared_ptr<Node> node) : node_(std::move(node)) {}
  std::shared_ptr<Node> node_;
};

}  // namespace common
