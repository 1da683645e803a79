#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>

#include <fmt/format.h>

#include "common/error.h"
#include "common/hash.h"
#include "common/ranges.h"
#include "common/text.h"
#include "common/toml_table.h"
#include "harness/experiment.h"
#include "harness/manifest/manifest.h"
#include "harness/names.h"
#include "harness/records/inputs.h"
#include "harness/spec.h"
#include "harness/testbeds/testbeds.h"
#include "studies/sensitivity/sensitivity.h"

namespace studies {
namespace {

using common::InputError;
using common::TomlTable;

// The variations of one [[vary]] table.
struct Axis {
  std::vector<Variation> variations;
  std::vector<std::string> experiments;  // names; empty: all
  std::string place;
};

// A value as people write it: without quotes.
std::string Plain(std::string value) {
  std::erase(value, '"');
  return value;
}

// The variations with each value of a key.
std::vector<Variation> WithValues(const std::vector<Variation>& variations,
                                  const TomlTable::Leaf& leaf) {
  std::vector<Variation> varied;
  for (const Variation& variation : variations) {
    for (const std::string& value : leaf.values) {
      Variation& next = varied.emplace_back(variation);
      // One value for several keys is named once.
      if (leaf.values.size() > 1 ||
          (next.value != Plain(value) &&
           !next.value.ends_with(", " + Plain(value)))) {
        next.name += "-" + harness::NamePart(Plain(value));
        next.value += (next.value.empty() ? "" : ", ") + Plain(value);
      }
      next.settings.push_back(fmt::format("{}={}", leaf.path, value));
    }
  }
  return varied;
}

// [[vary]] is a part of a manifest, below a name: every list is an axis. Its
// variations are added to `all`, where their names must be new.
Axis ReadAxis(const TomlTable& table,
              const std::vector<std::string>& experiments,
              std::vector<Variation>& all) {
  const std::string constant = table.RequireString("name");
  Axis axis{{{.name = constant, .constant = constant}},
            table.GetStrings("experiments"),
            table.Where()};
  for (const TomlTable::Leaf& leaf : table.Leaves()) {
    if (leaf.path.find('.') == std::string::npos) {
      if (leaf.path != "name" && leaf.path != "experiments") {
        table.Fail(
            leaf.path,
            fmt::format("unknown key 'vary.{}': a constant is TABLE.KEY, "
                        "as in backend.failure_s = [5, 30]",
                        leaf.path));
      }
      continue;
    }
    axis.variations = WithValues(axis.variations, leaf);
  }
  if (axis.variations.empty() || axis.variations.front().settings.empty()) {
    throw InputError(fmt::format(
        "{}: vary '{}' has no constant: give one, as in backend.failure_s = "
        "[5, 30]",
        table.Where(), constant));
  }
  for (const Variation& variation : axis.variations) {
    harness::CheckName(table, "name", "variation", variation.name);
    if (common::Contains(all, variation.name, &Variation::name)) {
      table.Fail("name",
                 fmt::format("two variations have the name '{}': rename one",
                             variation.name));
    }
    all.push_back(variation);
  }
  for (const std::string& name : axis.experiments) {
    if (!common::Contains(experiments, name)) {
      table.Fail("experiments",
                 common::UnknownName("experiment", name, experiments));
    }
  }
  return axis;
}

std::vector<Claim> ReadClaims(const TomlTable& root) {
  std::vector<Claim> claims =
      common::Map(root.GetTables("claim"), [](const TomlTable& table) {
        return Claim{table.RequireString("text"), table.RequireString("better"),
                     table.RequireString("worse")};
      });
  if (claims.empty()) {
    throw InputError(fmt::format(
        "{}: a claim is missing: give at least one [[claim]] with text, better "
        "and worse",
        root.Where()));
  }
  return claims;
}

std::vector<std::string> MethodsOf(const std::vector<Claim>& claims) {
  std::vector<std::string> methods;
  for (const Claim& claim : claims) {
    for (const std::string& method : {claim.better, claim.worse}) {
      if (!common::Contains(methods, method)) {
        methods.push_back(method);
      }
    }
  }
  return methods;
}

// Clusters whose constants are drawn from [[draw]] tables: one of `values`, or
// a number of `log_uniform` = [low, high]. A constant depends on the study's
// seed, its key and the number of the cluster, not on the other constants.
std::vector<Variation> DrawClusters(const TomlTable& root, int clusters,
                                    std::int64_t seed) {
  std::vector<Variation> drawn;
  for (int cluster = 1; cluster <= clusters; ++cluster) {
    drawn.push_back({fmt::format("cluster-{:02}", cluster),
                     "cluster",
                     std::to_string(cluster),
                     {fmt::format("noise.landscape_seed={}", cluster)}});
  }
  for (const TomlTable& table : root.GetTables("draw")) {
    const std::string key = table.RequireString("key");
    const std::vector<double> values = table.GetDoubles("values");
    const std::vector<double> range = table.GetDoubles("log_uniform");
    const bool is_range =
        range.size() == 2 && range[0] > 0.0 && range[0] < range[1];
    if (values.empty() == range.empty() || (values.empty() && !is_range)) {
      table.Fail("key",
                 fmt::format("draw '{}': give either values = [...] or "
                             "log_uniform = [low, high] with 0 < low < high",
                             key));
    }
    for (std::size_t c = 0; c < drawn.size(); ++c) {
      std::mt19937_64 engine(
          common::DeriveSeed(fmt::format("{}/{}", seed, key), c));
      const std::uint64_t random = engine();
      const double value =
          values.empty()
              ? range[0] * std::pow(range[1] / range[0],
                                    static_cast<double>(random >> 11) * 0x1p-53)
              : values[random % values.size()];
      drawn[c].draws.emplace_back(key, value);
      drawn[c].settings.push_back(fmt::format("{}={:.4g}", key, value));
    }
  }
  return drawn;
}

// Everything that the runs of a method depend on, over all problems.
std::string HashOf(const harness::Experiment& experiment,
                   const std::string& method) {
  const harness::Manifest& manifest = experiment.manifest;
  const auto found =
      std::ranges::find(manifest.methods, method, &harness::MethodSpec::name);
  if (found == manifest.methods.end()) {
    throw InputError(fmt::format(
        "{}: method '{}' has a list of values for an option, so it is several: "
        "a claim needs one",
        manifest.path.string(), method));
  }
  std::string hash;
  for (const harness::ProblemSpec& problem : manifest.problems) {
    hash += harness::RunHash(
        InputsOf(manifest, problem, *found, experiment.testbeds.Of(problem)),
        harness::BoundsOf(manifest.budget));
  }
  return hash;
}

// Reads the experiment with these settings and decides which methods it has to
// run. `owners`: the folder that has the runs of a hash.
VariedExperiment Vary(const std::filesystem::path& path,
                      const std::filesystem::path& folder,
                      const Variation& variation, int repeats,
                      const std::vector<std::string>& methods,
                      std::map<std::string, std::filesystem::path>& owners) {
  VariedExperiment varied{.experiment = path.stem().string(),
                          .variation = variation,
                          .manifest = path,
                          .results = folder / path.stem(),
                          .overrides = {.repeats = repeats,
                                        .methods = methods,
                                        .settings = variation.settings}};
  varied.overrides.settings.push_back(
      fmt::format("experiment.name=\"{}\"", variation.name));
  const harness::Experiment experiment =
      harness::ReadManifest(path, varied.overrides);
  harness::CheckManifest(experiment);
  varied.overrides.methods.clear();
  for (const std::string& method : methods) {
    const auto [owner, first] = owners.try_emplace(
        HashOf(experiment, method) + "/" + method, varied.Folder());
    varied.records[method] = owner->second;
    if (first) {
      varied.overrides.methods.push_back(method);
    }
  }
  return varied;
}

// The tables [[vary]] of a manifest, then those of its study.vary_as.
std::vector<TomlTable> VaryTables(const TomlTable& root,
                                  const TomlTable& study) {
  std::vector<TomlTable> tables = root.GetTables("vary");
  if (study.Has("vary_as")) {
    const std::vector<TomlTable> others =
        TomlTable::ParseFile(harness::NamedFile(study, "vary_as"))
            .GetTables("vary");
    tables.insert(tables.end(), others.begin(), others.end());
  }
  return tables;
}

}  // namespace

SensitivityStudy ReadSensitivityStudy(const std::filesystem::path& manifest,
                                      const std::filesystem::path& results,
                                      std::optional<int> repeats) {
  const TomlTable root = TomlTable::ParseFile(manifest);
  const TomlTable table = root.RequireTable("study");
  SensitivityStudy study;
  study.folder = results / manifest.stem();
  study.title = table.GetString("title", manifest.stem().string());
  study.repeats = repeats.value_or(table.GetIntIn("repeats", 10, 1));
  if (table.Has("ledger")) {
    study.ledger = harness::NamedFile(table, "ledger");
  } else {
    study.claims = ReadClaims(root);
  }
  study.variations = {Variation()};
  const std::vector<std::string> files = table.GetStrings("experiments");
  if (files.empty()) {
    throw InputError(fmt::format(
        "{}: study.experiments is missing: name at least one manifest",
        table.Where()));
  }
  const auto names = common::Map(files, [](const std::filesystem::path& file) {
    return file.stem().string();
  });
  std::vector<Axis> axes = {{study.variations, {}, root.Where()}};
  axes.push_back({DrawClusters(root, table.GetIntIn("clusters", 0, 0),
                               table.GetInt("seed", 1)),
                  {},
                  root.Where()});
  study.variations.insert(study.variations.end(),
                          axes.back().variations.begin(),
                          axes.back().variations.end());
  for (const TomlTable& vary : VaryTables(root, table)) {
    axes.push_back(ReadAxis(vary, names, study.variations));
  }
  root.RejectUnknownKeys();

  std::vector<std::map<std::string, std::filesystem::path>> owners(
      files.size());
  for (const Axis& axis : axes) {
    for (const Variation& variation : axis.variations) {
      for (std::size_t i = 0; i < files.size(); ++i) {
        if (!axis.experiments.empty() &&
            !common::Contains(axis.experiments, names[i])) {
          continue;
        }
        try {
          study.experiments.push_back(Vary(
              (manifest.parent_path() / files[i]).lexically_normal(),
              study.folder, variation, study.repeats,
              study.ledger.empty() ? MethodsOf(study.claims)
                                   : MethodsOfClaims(study.ledger, names[i]),
              owners[i]));
        } catch (const InputError& e) {
          throw InputError(fmt::format("{}: {} of {}: {}", axis.place,
                                       variation.name, names[i], e.what()));
        }
      }
    }
  }
  return study;
}

}  // namespace studies
