// Tables and sentences of README.md and docs/, made from the CSV files that
// reports, studies and benchmarks write.
//
//   documents_study PROJECT RESULTS [--partial]
//
// writes RESULTS/documents/NAME.md for each part that
// experiments/studies/documents.toml of the project describes; scripts/docs
// inserts them. A part whose input is missing has no file, but a line "NAME:
// reason" on standard error.

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "common/csv_table.h"
#include "common/files.h"
#include "common/json.h"
#include "common/ranges.h"
#include "common/text.h"
#include "common/toml_table.h"
#include "common/units.h"
#include "plots/figure_files.h"
#include "plots/table.h"
#include "studies/documents/texts.h"
#include "studies/output.h"
#include "trials/tables/table_settings.h"

namespace studies {
namespace {

namespace fs = std::filesystem;
using common::TomlTable;

struct DocumentOptions {
  fs::path project;
  fs::path results;
  bool partial = false;  // experiments count that are not complete
};

// "$list.name" -> text, and lists of such names.
using Names = std::map<std::string, std::string>;
using Lists = std::map<std::string, std::vector<Names>>;

// An input that is not there, and the command that makes it.
struct Missing {
  std::string reason;
};

std::string Replaced(std::string text, const Names& names) {
  for (const auto& [name, value] : names) {
    for (std::size_t at = 0; (at = text.find(name, at)) != text.npos;
         at += value.size()) {
      text.replace(at, name.size(), value);
    }
  }
  return text;
}

std::vector<std::string> Replaced(const std::vector<std::string>& texts,
                                  const Names& names) {
  return common::Map(
      texts, [&](const std::string& text) { return Replaced(text, names); });
}

// The entries of the list that a text names; one without names if it names
// none.
std::vector<Names> EntriesIn(const std::string& text, const Lists& lists) {
  for (const auto& [name, entries] : lists) {
    if (text.find(fmt::format("${}.", name)) != text.npos) {
      return entries;
    }
  }
  return {{}};
}

std::vector<Record> ReadCsv(const fs::path& path) {
  const common::CsvTable table = common::CsvTable::Read(path);
  std::vector<Record> records;
  for (const common::CsvTable::Row& row : table.rows()) {
    Record& record = records.emplace_back();
    for (std::size_t c = 0; c < row.cells.size(); ++c) {
      record[table.header()[c]] = row.cells[c];
    }
  }
  return records;
}

// What `oppa validate` writes, with names such as step_time.mean.
std::vector<Record> ReadComparisons(const fs::path& path) {
  const common::Json json = common::ReadJson(path);
  std::vector<Record> records;
  for (const common::Json& comparison : json.at("comparisons")) {
    Record& record = records.emplace_back();
    record["table"] = json.at("table");
    const common::Json flat = comparison.flatten();
    for (const auto& [pointer, value] : flat.items()) {
      std::string name = pointer.substr(1);
      std::ranges::replace(name, '/', '.');
      record[name] = value.is_string() ? value.get<std::string>()
                     : value.is_null() ? ""
                                       : value.dump();
    }
  }
  return records;
}

struct Column {
  std::string header;
  Names names;  // of the list in the header
  std::vector<std::string> patterns;
  std::string separator;  // of the cells of all records; "": one cell
  std::string after;      // what follows them

  [[nodiscard]] Filled CellOf(const Records& records, const Names& line) const {
    const auto fill = [&](const std::vector<std::string>& texts,
                          const Records& of) {
      Filled filled = Fill(Replaced(Replaced(texts, line), names), of);
      filled.text = common::Trim(filled.text);
      return filled;
    };
    if (separator.empty()) {
      return fill(patterns, records);
    }
    std::vector<std::string> cells;
    for (const Record* record : records) {
      cells.push_back(fill(patterns, {record}).text);
    }
    std::erase(cells, "");
    return {.text = fmt::format("{}{}", fmt::join(cells, separator),
                                fill({after}, records).text),
            .known = static_cast<int>(cells.size())};
  }
};

// One part of the documents.
class Part {
 public:
  Part(const DocumentOptions& options, const TomlTable& spec,
       const Names& names, const Lists& lists)
      : options_(options), spec_(spec), names_(names), lists_(lists) {
    for (const std::string& text : Strings("files")) {
      LoadFile(text);
    }
    Filter();
    if (spec_.Has("sort")) {
      Sort(Replaced(spec_.RequireString("sort"), names_));
    }
    for (const Record& record : loaded_) {
      all_.push_back(&record);
    }
  }

  [[nodiscard]] std::string Text() const {
    if (spec_.Has("text")) {
      return Whole({spec_.RequireString("text")}, {});
    }
    const std::vector<Column> columns = Columns();
    plots::Table table;
    const auto add = [&](const Records& records, const Names& line) {
      plots::Row row;
      int known = 0;
      for (const Column& column : columns) {
        const Filled cell = column.CellOf(records, line);
        if (row.empty() && cell.text.empty() && cell.unknown > 0) {
          return;
        }
        known += row.empty() ? 0 : cell.known;
        row.emplace_back(column.header, cell.text);
      }
      if (known > 0) {
        table.Add(std::move(row));
      }
    };
    if (spec_.Has("lines")) {
      for (const Names& line : lists_.at(spec_.RequireString("lines"))) {
        add(all_, line);
      }
    } else {
      for (const Records& group : Groups()) {
        add(group, {});
      }
    }
    return table.rows.empty() ? Whole({"{row}"}, {})
                              : plots::ToCompactMarkdown(table);
  }

 private:
  [[nodiscard]] std::vector<std::string> Strings(const char* key) const {
    std::vector<std::string> texts;
    for (const std::string& text : Replaced(spec_.GetStrings(key), names_)) {
      for (const Names& entry : EntriesIn(text, lists_)) {
        texts.push_back(Replaced(text, entry));
      }
    }
    return texts;
  }

  // The first of several texts all of whose values are known.
  [[nodiscard]] std::string Whole(const std::vector<std::string>& patterns,
                                  const Names& names) const {
    const Filled filled =
        Fill(Replaced(Replaced(patterns, names_), names), all_);
    if (filled.unknown > 0) {
      throw Missing{fmt::format("a value is missing: run {}", command_)};
    }
    return filled.text;
  }

  // "PATH [NEW=OLD]": with a copy of a column under another name. The path is
  // one of the results or of the project.
  void LoadFile(const std::string& text) {
    const std::size_t space = std::min(text.find(' '), text.size());
    const std::string copy(common::Trim(text.substr(space)));
    fs::path path = options_.project / text.substr(0, space);
    path =
        common::IsFile(path) ? path : options_.results / text.substr(0, space);
    const std::string folder = path.parent_path().filename();
    command_ =
        Replaced(spec_.GetString("command", "make exp-" + folder), names_);
    if (!common::IsFile(path)) {
      throw Missing{
          fmt::format("{} is missing: run {}", path.string(), command_)};
    }
    for (Record& record :
         path.extension() == ".json" ? ReadComparisons(path) : ReadCsv(path)) {
      if (path.filename() == "summary.csv" && record.contains("finished")) {
        CheckComplete(folder, record);
      }
      record.emplace("experiment", folder);
      const Names& labels = lists_.at("sources").front();
      const auto label = labels.find(record["source"]);
      record["label of source"] =
          label == labels.end() ? record["source"] : label->second;
      if (const std::size_t equals = copy.find('='); equals != copy.npos) {
        record[copy.substr(0, equals)] = record[copy.substr(equals + 1)];
      }
      loaded_.push_back(std::move(record));
    }
  }

  // Every run has finished, and there are as many as the manifest asks for.
  void CheckComplete(const std::string& experiment, Record& row) const {
    const std::int64_t repeats =
        TomlTable::ParseFile(options_.project / "experiments" /
                             fmt::format("{}.toml", experiment))
            .RequireTable("experiment")
            .RequireInt("repeats");
    const bool complete =
        row["finished"] == row["repeats"] &&
        (row["problem"].starts_with("(mean") ||
         common::ParseInt64(row["repeats"]).value_or(0) >= repeats);
    if (!complete && !options_.partial) {
      throw Missing{fmt::format(
          "{} is incomplete ({}: {} of {} repeats): run {}", experiment,
          row["label"], row["finished"], repeats, command_)};
    }
  }

  // Leaves the records that meet the first conditions that any record meets.
  void Filter() {
    for (const std::string& conditions : Strings("where")) {
      const auto meets = [&](const Record& record) {
        return Meets(record, conditions);
      };
      if (std::ranges::any_of(loaded_, meets)) {
        std::erase_if(loaded_, std::not_fn(meets));
        return;
      }
    }
    if (spec_.Has("where")) {
      loaded_.clear();
    }
  }

  // By a number, the largest first; records without it are last. Each has its
  // rank, and the median is the middle one.
  void Sort(const std::string& by) {
    std::ranges::stable_sort(loaded_, std::greater(), [&](const auto& record) {
      const double number = common::NumberOrNan(TextIn(record, by));
      return std::isnan(number) ? -common::kInfinity : number;
    });
    for (std::size_t i = 0; i < loaded_.size(); ++i) {
      loaded_[i]["rank"] = std::to_string(i + 1);
      loaded_[i]["middle"] = i == (loaded_.size() - 1) / 2 ? "1" : "0";
    }
  }

  [[nodiscard]] std::vector<Column> Columns() const {
    const TomlTable table = spec_.RequireTable("columns");
    std::vector<Column> columns;
    for (const std::string& key : table.Keys()) {
      const bool plain = !table.IsTable(key);
      const TomlTable more = plain ? TomlTable() : table.GetTable(key);
      Column column{.separator = more.GetString("each", ""),
                    .after = more.GetString("after", "")};
      column.patterns = Replaced(
          plain ? table.GetStrings(key) : more.GetStrings("cell"), names_);
      for (const Names& entry : EntriesIn(Replaced(key, names_), lists_)) {
        column.names = entry;
        column.header = common::Trim(Whole(
            more.Has("header") ? more.GetStrings("header") : std::vector{key},
            entry));
        columns.push_back(column);
      }
    }
    return columns;
  }

  // By the columns of `group`, in the order of their first records; each record
  // by itself without any.
  [[nodiscard]] std::vector<Records> Groups() const {
    std::vector<std::string> keys;
    std::vector<Records> groups;
    for (const Record* record : all_) {
      std::string key;
      for (const std::string& column : spec_.GetStrings("group")) {
        key += fmt::format("{}\n", TextIn(*record, column));
      }
      const auto found = std::ranges::find(keys, key);
      if (found == keys.end() || key.empty()) {
        keys.push_back(key);
        groups.push_back({record});
      } else {
        groups[found - keys.begin()].push_back(record);
      }
    }
    return groups;
  }

  const DocumentOptions& options_;
  const TomlTable& spec_;
  const Names& names_;
  const Lists& lists_;
  std::string command_;
  std::vector<Record> loaded_;
  Records all_;
};

Names NamesOf(const std::string& list, const TomlTable& entry) {
  Names names;
  for (const std::string& name : entry.Keys()) {
    names[fmt::format("${}.{}", list, name)] = entry.RequireText(name);
  }
  return names;
}

// A list has tables of names. "validated" has the entries of published tables,
// and "sources" is no list: it has the label of each source.
Lists ReadLists(const TomlTable& file, const fs::path& published) {
  Lists lists;
  const TomlTable table = file.GetTable("lists");
  for (const std::string& list : table.Keys()) {
    for (const TomlTable& entry : list == "validated" ? std::vector<TomlTable>()
                                                      : table.GetTables(list)) {
      lists[list].push_back(NamesOf(list, entry));
    }
  }
  for (const std::string& name : table.GetStrings("validated")) {
    const trials::TableSettings settings =
        trials::ReadTableSettings(published / (name + ".toml"));
    for (const TomlTable& entry : settings.documents) {
      Names& names =
          lists["validated"].emplace_back(NamesOf("validated", entry));
      names["$validated.table"] = name;
      names["$validated.other"] =
          fmt::format("half=other&table={}&{}", name, names["$validated.rows"]);
    }
  }
  Names& labels = lists["sources"].emplace_back();
  for (const fs::path& path : common::ListFolder(published)) {
    if (path.extension() == ".toml") {
      const trials::TableSettings settings = trials::ReadTableSettings(path);
      std::string& label = labels[settings.source];
      label =
          label.empty() || label == settings.source ? settings.label : label;
    }
  }
  return lists;
}

void WriteDocuments(const DocumentOptions& options, const Sink& sink) {
  const fs::path experiments = options.project / "experiments";
  const TomlTable file =
      TomlTable::ParseFile(experiments / "studies/documents.toml");
  const Lists lists = ReadLists(file, experiments / "validation");
  for (const TomlTable& spec : file.GetTables("part")) {
    const std::string name = spec.RequireString("name");
    for (const Names& names : EntriesIn(name, lists)) {
      const std::string part = Replaced(name, names);
      const fs::path path =
          options.results / "documents" / fmt::format("{}.md", part);
      try {
        plots::WriteTextFile(path, Part(options, spec, names, lists).Text());
      } catch (const Missing& missing) {
        common::Remove(path);
        sink.notes << part << ": " << missing.reason << '\n';
      }
    }
  }
}

}  // namespace
}  // namespace studies

int main(int argc, char** argv) {
  const bool partial = argc == 4 && argv[3] == std::string_view("--partial");
  return studies::RunProgram(
      argc == 3 || partial, "documents_study PROJECT RESULTS [--partial]",
      [&](const studies::Sink& sink) {
        studies::WriteDocuments({argv[1], argv[2], partial}, sink);
        return 0;
      });
}
