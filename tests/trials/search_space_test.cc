#include "trials/search_space.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "common/toml_table.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/paths.h"
#include "tests/fakes/temporary_folder.h"
#include "trials/knobs.h"

namespace trials::search_space_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

const std::filesystem::path kExperiments =
    fakes::SourceFolder() / "experiments";

struct Problem {
  std::string name;
  int gpus = 1;
  int layers = 1;
  int heads = 1;
  int kv_heads = 1;
  int batch_size = 1;
  std::string space;  // the [space] table
  int experts = 0;
};

constexpr int kSequenceLength = 6;

std::ostream& operator<<(std::ostream& out, const Problem& problem) {
  return out << problem.name;
}

Workload MakeWorkload(const Problem& problem) {
  Workload workload;
  workload.model.layers = problem.layers;
  workload.model.attention_heads = problem.heads;
  workload.model.kv_heads = problem.kv_heads;
  workload.model.experts = problem.experts;
  workload.batch_size = problem.batch_size;
  workload.sequence_length = kSequenceLength;
  return workload;
}

SearchSpaceOptions ParseOptions(const std::string& text) {
  return ReadSearchSpaceOptions(
      common::TomlTable::ParseString("[space]\n" + text, "fig.toml")
          .GetTable("space"),
      kExperiments / "rules");
}

SearchSpace Enumerate(const Problem& problem) {
  return SearchSpace::Enumerate(MakeWorkload(problem), problem.gpus,
                                ParseOptions(problem.space));
}

// The default grids, written down a second time.
std::map<std::string, std::vector<int>> BruteForceGrids(
    const Problem& problem, const SearchSpaceOptions& options) {
  std::vector<int> divisors;
  for (int i = 1; i <= problem.gpus; ++i) {
    if (problem.gpus % i == 0) {
      divisors.push_back(i);
    }
  }
  const auto powers = [](int limit) {
    std::vector<int> values;
    for (int value = 1; value <= limit; value *= 2) {
      values.push_back(value);
    }
    return values;
  };
  std::map<std::string, std::vector<int>> grids = {
      {"dp", divisors},
      {"tp", divisors},
      {"pp", divisors},
      {"dp_bucket_mb", {1, 4, 16, 64, 256, 1024, 4096}},
      {"zero_stage", {0, 1, 2, 3}},
      {"zero_bucket_mb", {1, 4, 16, 64, 256, 1024, 4096}},
      {"overlap_zero_comm", {0, 1}},
      {"overlap_zero_allgather", {0, 1}},
      {"microbatches", powers(problem.batch_size)},
      {"model_chunks", powers(problem.layers)},
      {"overlap_p2p", {0, 1}},
      {"grad_checkpoint", {0, 1}},
      {"sp", {1}},
      {"ep", {1}},
      {"cp", {1}},
      {"dp_replicate", {1}},
      {"etp", {0}},
      {"torch_compile", {0}}};
  for (const auto& [name, values] : options.values) {
    grids[name] = values;
  }
  return grids;
}

// The first rule that drops a canonical configuration, or -1. Written from
// the text of DESIGN and the header, not from the enumeration.
int FirstRule(const ParallelConfig& c, const Problem& p,
              const SearchSpaceOptions& options) {
  const std::vector<bool> built_in = {
      c.dp * c.tp * c.pp * c.cp != p.gpus,
      p.heads % c.tp != 0,
      p.kv_heads % c.tp != 0,
      kSequenceLength % c.cp != 0,
      c.pp * c.model_chunks > p.layers,
      p.batch_size % (c.dp * c.microbatches) != 0,
      c.microbatches < c.pp,
      (c.model_chunks > 1) && c.microbatches % c.pp != 0,
      (c.etp == 1 ? c.dp * c.tp * c.cp : c.dp) % c.ep != 0,
      c.etp > 1 && c.etp != c.tp,
      c.ep > 1 && (p.experts == 0 || p.experts % c.ep != 0),
      c.sp > 1 && c.sp != c.tp,
      c.sp > 1 && kSequenceLength % (c.cp * c.sp) != 0,
      c.dp % c.dp_replicate != 0};
  for (std::size_t i = 0; i < built_in.size(); ++i) {
    if (built_in[i]) {
      return static_cast<int>(i);
    }
  }
  const Rule::Context context = RuleContext(MakeWorkload(p), p.gpus);
  for (std::size_t i = 0; i < options.rules.size(); ++i) {
    if (options.rules[i].Matches(c, context)) {
      return static_cast<int>(built_in.size() + i);
    }
  }
  return -1;
}

struct BruteForce {
  std::set<ParallelConfig> valid;
  std::vector<std::int64_t> dropped;
};

// Walks the whole raw product of the grids.
BruteForce EnumerateByBruteForce(const Problem& problem) {
  const SearchSpaceOptions options = ParseOptions(problem.space);
  const auto grids = BruteForceGrids(problem, options);
  std::set<ParallelConfig> canonical;
  std::map<std::string, std::size_t> at;  // an odometer over the grids
  bool more = true;
  while (more) {
    ParallelConfig config;
    for (const auto& [name, values] : grids) {
      BuiltInKnobs().Require(name).Set(config, values[at[name]]);
    }
    canonical.insert(Canonical(config));
    more = false;
    for (const auto& [name, values] : grids) {
      if (++at[name] < values.size()) {
        more = true;
        break;
      }
      at[name] = 0;
    }
  }
  BruteForce result;
  result.dropped.resize(14 + options.rules.size());
  for (const ParallelConfig& config : canonical) {
    const int rule = FirstRule(config, problem, options);
    if (rule < 0) {
      result.valid.insert(config);
    } else {
      ++result.dropped[rule];
    }
  }
  return result;
}

// Buckets of two sizes keep the raw products near a million.
const std::string kFewBuckets =
    "dp_bucket_mb = [1, 64]\nzero_bucket_mb = [4, 256]\n";

class SearchSpaceProblems : public ::testing::TestWithParam<Problem> {};

TEST_P(SearchSpaceProblems, EqualTheBruteForceOverTheRawProduct) {
  const SearchSpace space = Enumerate(GetParam());
  const BruteForce expected = EnumerateByBruteForce(GetParam());
  EXPECT_EQ(space.configs(), std::vector<ParallelConfig>(expected.valid.begin(),
                                                         expected.valid.end()));
  std::vector<std::int64_t> dropped;
  for (const SearchSpace::Dropped& rule : space.dropped()) {
    dropped.push_back(rule.count);
  }
  EXPECT_EQ(dropped, expected.dropped);
}

INSTANTIATE_TEST_SUITE_P(
    All, SearchSpaceProblems,
    ::testing::Values(
        Problem{"DefaultGrids", 2, 4, 4, 4, 4, ""},
        Problem{"OneGpu", 1, 4, 4, 4, 8, kFewBuckets},
        Problem{"FourGpus", 4, 6, 12, 2, 8, kFewBuckets},
        Problem{"SixGpus", 6, 12, 12, 6, 24, kFewBuckets},
        Problem{"TwelveGpus", 12, 8, 12, 4, 12, kFewBuckets},
        Problem{"HeadsRestrictTp", 8, 4, 6, 2, 8, kFewBuckets},
        Problem{"BatchRestrictsDp", 6, 4, 4, 4, 20, kFewBuckets},
        Problem{
            "RuleSetAndOwnRule", 8, 4, 8, 8, 8,
            kFewBuckets +
                "rule_sets = ['colossalai']\n"
                "rules = ['$tp > 2 && $pp > 1', '$micro_batch_size > 2']\n"},
        Problem{"InactiveKnobsWithRestrictedGrids", 4, 4, 4, 4, 8,
                "zero_stage = [1]\nmb = [8]\nmodel_chunks = [2]\n"
                "overlap_p2p = true\nzero_bucket_mb = [4]\nsp = [2, 3]\n"
                "dp_bucket_mb = [64, 64, 1]\noverlap_zero_comm = false\n"},
        Problem{"ContextsSplitTheSequence", 8, 4, 4, 4, 8,
                kFewBuckets + "cp = [1, 2, 4]\n"},
        Problem{"SequenceParallelismOfTensorParallelRanks", 8, 8, 4, 8, 8,
                "dp_bucket_mb = [64]\nzero_bucket_mb = [4]\n"
                "cp = [1, 2]\nsp = [1, 2, 4]\n"},
        Problem{"ExpertsOverDataParallelRanks", 4, 4, 4, 4, 8,
                "dp_bucket_mb = [64]\nzero_bucket_mb = [4]\n"
                "ep = [1, 2, 4]\n",
                6}),
    [](const auto& test) { return test.param.name; });

TEST(SearchSpace, CellsPartitionTheCandidatesBySizes) {
  const SearchSpace space = Enumerate({"", 8, 8, 8, 8, 16, kFewBuckets});
  std::set<int> seen;
  std::set<std::vector<int>> sizes;
  for (const std::vector<int>& cell : space.cells()) {
    ASSERT_FALSE(cell.empty());
    const ParallelConfig& first = space[cell.front()];
    EXPECT_TRUE(sizes.insert({first.dp, first.tp, first.pp}).second);
    for (const int index : cell) {
      EXPECT_TRUE(seen.insert(index).second);
      EXPECT_EQ(space[index].dp, first.dp);
      EXPECT_EQ(space[index].tp, first.tp);
    }
  }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(space.size()));
  EXPECT_EQ(space.cells().size(), 10U);  // ordered factorizations of 8 in 3
}

TEST(SearchSpace, ListIsTakenAsItStands) {
  const SearchSpace space(
      std::vector<ParallelConfig>{{.dp = 2, .microbatches = 4}, {.tp = 2}});
  EXPECT_EQ(space.size(), 2);
  EXPECT_EQ(space[0].microbatches, 4);  // not made canonical
  EXPECT_EQ(space.Find({.tp = 2}), 1);
  EXPECT_THROW(
      SearchSpace(std::vector<ParallelConfig>{{.dp = 2}, {.tp = 2}, {.dp = 2}}),
      common::InputError);
  EXPECT_THROW(SearchSpace(std::vector<ParallelConfig>(50)),
               common::InputError);
}

// The README's own example, on 8 GPUs.
TEST(Complete, FillsActiveKnobsInFromTheSpaceAndSaysSo) {
  const SearchSpace space = Enumerate({"", 8, 8, 8, 8, 16, ""});
  const Completed completed =
      Complete("dp=4,pp=2,zero_stage=1,microbatches=4", space);
  EXPECT_EQ(completed.config, (ParallelConfig{.dp = 4,
                                              .pp = 2,
                                              .zero_stage = 1,
                                              .zero_bucket_mb = 16,
                                              .microbatches = 4}));
  EXPECT_TRUE(space.Find(completed.config));
  EXPECT_THAT(completed.notes,
              ElementsAre("zero_bucket_mb is not given; using 16, the value in "
                          "the search space nearest to the default of 24"));
}

TEST(Complete, KeepsWhatIsGivenAndPrefersBucketsToSwitches) {
  const SearchSpace space = Enumerate(
      {"", 8, 8, 8, 8, 16, "dp_bucket_mb = [4096]\nzero_bucket_mb = [24]\n"});
  EXPECT_EQ(Complete("dp=8", space).config,
            (ParallelConfig{.dp = 8, .dp_bucket_mb = 4096}));
  const Completed given = Complete("dp=8,zero=1,zero_bucket=24", space);
  EXPECT_EQ(given.config, (ParallelConfig{.dp = 8, .zero_stage = 1}));
  EXPECT_THAT(given.notes, IsEmpty());
}

TEST(Complete, NamesKnobsWithoutEffect) {
  const SearchSpace space = Enumerate({"", 8, 8, 8, 8, 16, kFewBuckets});
  const Completed completed = Complete("dp=1,tp=8,mc=2,overlap_p2p=1", space);
  EXPECT_EQ(completed.config, (ParallelConfig{.tp = 8}));
  EXPECT_THAT(
      completed.notes,
      ElementsAre(
          "model_chunks=2 is ignored: it has an effect only if pp > 1",
          "overlap_p2p=1 is ignored: it has an effect only if model_chunks > "
          "1"));
}

TEST(Complete, ASizeOfMicrobatchesGivesTheirNumber) {
  const SearchSpace space = Enumerate({"", 8, 8, 8, 8, 16, kFewBuckets});
  EXPECT_EQ(Complete("dp=4,pp=2,mbs=1", space).config,
            Complete("dp=4,pp=2,mb=4", space).config);
  EXPECT_EQ(Complete("dp=8,mbs=2,mb=1", space).config.microbatches, 1);
  const auto reason = [&](const char* text) {
    return fakes::ErrorOf([&] { return Complete(text, space); });
  };
  EXPECT_EQ(reason("dp=8,mbs=3"),
            "micro_batch_size=3 does not divide the batch of 16 on dp=8 ranks");
  EXPECT_EQ(reason("dp=4,pp=2,mb=3"),
            "microbatches=3 does not divide the batch of 16 on dp=4 ranks; the "
            "nearest that do are 2 and 4");
  EXPECT_EQ(reason("dp=8,mb=5"),
            "microbatches=5 does not divide the batch of 16 on dp=8 ranks; the "
            "nearest that does is 2");
  EXPECT_EQ(reason("dp=3,mb=5"), "dp=3 does not divide the batch of 16");
  EXPECT_EQ(reason("dp=8,mbs=2,mb=2"),
            "micro_batch_size=2 needs microbatches=1, not 2: leave one of them "
            "out");
}

TEST(SearchSpace, AListOfSizesOfMicrobatchesIsAListOfTheirNumbers) {
  const std::string few = kFewBuckets;
  const SearchSpace sizes =
      Enumerate({"", 8, 8, 8, 8, 16, few + "micro_batch_size = [2]\n"});
  for (const ParallelConfig& config : sizes.configs()) {
    EXPECT_EQ(config.dp * config.microbatches * 2, 16);
  }
  const SearchSpace numbers = Enumerate({"", 8, 8, 8, 8, 16, few});
  EXPECT_EQ(sizes.size(),
            std::count_if(numbers.configs().begin(), numbers.configs().end(),
                          [](const ParallelConfig& config) {
                            return config.dp * config.microbatches == 8;
                          }));
}

TEST(Complete, SaysThatNoConfigurationOfTheSpaceAgrees) {
  const SearchSpace space =
      Enumerate({"", 8, 8, 8, 8, 16, "zero_bucket_mb = [4]\n"});
  const Completed completed = Complete("dp=8,zero=1,zero_bucket=5", space);
  EXPECT_EQ(completed.config,
            (ParallelConfig{.dp = 8, .zero_stage = 1, .zero_bucket_mb = 5}));
  EXPECT_THAT(completed.notes,
              ElementsAre("dp=8,tp=1,pp=1,zero_stage=1,zero_bucket_mb=5 is "
                          "not in the search space"));
}

std::string Error(const Problem& problem) {
  return fakes::ErrorOf([&] { return Enumerate(problem); });
}

TEST(SearchSpace, ImpossibleSizesAreAnErrorWithTheGpusAndTheLists) {
  EXPECT_THAT(Error({"", 8, 8, 8, 8, 16, "dp = [3]\ntp = [1, 2]\n"}),
              AllOf(StartsWith("fig.toml:1:1: no dp * tp * pp * cp is 8"),
                    HasSubstr("dp in [3], tp in [1, 2], pp in [1, 2, 4, 8]")));
}

TEST(SearchSpace, WrongOptionsAreErrorsWithAPlaceAndARemedy) {
  const auto error = [](const std::string& space) {
    return Error({"", 8, 8, 8, 8, 16, space});
  };
  EXPECT_THAT(
      error("zero_stag = [1]\n"),
      AllOf(StartsWith("fig.toml:2:"), HasSubstr("unknown field 'zero_stag'"),
            HasSubstr("did you mean 'zero_stage'?")));
  EXPECT_THAT(error("zero_stage = [0, 7]\n"),
              AllOf(StartsWith("fig.toml:2:"),
                    HasSubstr("invalid value '7' for zero_stage: 0 to 3")));
  EXPECT_THAT(error("dp = [0]\n"), HasSubstr("invalid value '0' for dp"));
  EXPECT_THAT(error("overlap_p2p = [2]\n"), HasSubstr("true (1) or false (0)"));
  EXPECT_THAT(error("dp = []\n"), HasSubstr("dp is an empty list"));
  EXPECT_THAT(error("mb = [1]\nmicrobatches = [2]\n"),
              HasSubstr("microbatches is given twice"));
  EXPECT_THAT(error("micro_batch_size = [0, 4]\n"),
              HasSubstr("0 means that it follows from microbatches"));
  EXPECT_THAT(
      error("rule_sets = ['colosalai']\n"),
      AllOf(StartsWith("fig.toml:2:"), HasSubstr("did you mean 'colossalai'?"),
            HasSubstr("megatron")));
  EXPECT_THAT(error("rules = ['$pp >> 1']\n"),
              StartsWith("fig.toml:2:9: rule \"$pp >> 1\""));
  EXPECT_THAT(error("sp = [0, 1]\n"),
              AllOf(StartsWith("fig.toml:2:"), HasSubstr("1 is off"),
                    HasSubstr("sequence_parallel")));
  EXPECT_THAT(error("sequence_parallel = true\n"),
              AllOf(StartsWith("fig.toml:2:"), HasSubstr("sp = [1, 2")));
  EXPECT_THAT(error("dp = ['two']\n"), HasSubstr("must be an integer"));
  EXPECT_EQ(error("cp = [1]\nmicro_batch_size = 0\n"), "no error");
}

TEST(SearchSpace, OfSeveralNumbersOfGpusIsTheUnionOfTheirSpaces) {
  Problem problem{
      "parts", 16, 12, 8, 4, 64, "rules = [\"$num_gpus < 8 && $tp > 2\"]"};
  std::vector<ParallelConfig> expected;
  std::vector<std::int64_t> dropped;
  for (const int gpus : {4, 8, 16}) {
    problem.gpus = gpus;
    const SearchSpace one = Enumerate(problem);
    expected.insert(expected.end(), one.configs().begin(), one.configs().end());
    dropped.resize(one.dropped().size());
    for (std::size_t i = 0; i < dropped.size(); ++i) {
      dropped[i] += one.dropped()[i].count;
    }
  }
  std::sort(expected.begin(), expected.end());
  problem.space += "\ngpus = [16, 4, 8, 8]";
  const SearchSpace space = Enumerate(problem);
  EXPECT_EQ(space.configs(), expected);
  for (std::size_t i = 0; i < dropped.size(); ++i) {
    EXPECT_EQ(space.dropped()[i].count, dropped[i]) << space.dropped()[i].rule;
  }
}

TEST(SearchSpaceOptions, NumbersOfGpusArePositiveIntegers) {
  EXPECT_THAT(ParseOptions("gpus = [8, 4]").gpus, ElementsAre(4, 8));
  for (const char* text : {"gpus = []", "gpus = [0]", "gpus = [-8]"}) {
    EXPECT_THAT(fakes::ErrorOf([&] { return ParseOptions(text); }),
                StartsWith("fig.toml:2:"));
  }
}

// Of 3 heads, tp = 2 is dropped by a rule that is built in.
TEST(SearchSpace, AnEmptySpaceNamesARuleOfTheManifestIfItDroppedAny) {
  const auto error = [](const std::string& rules) {
    return Error({"", 2, 4, 3, 3, 8,
                  "dp_bucket_mb = [4]\npp = [1]\nrules = [" + rules + "]\n"});
  };
  EXPECT_THAT(error("'$dp = 2'"), HasSubstr("\"$dp = 2\" (manifest) dropped"));
  EXPECT_THAT(Error({"", 2, 4, 3, 3, 8,
                     "dp = [1]\ntp = [2]\npp = [1]\nrules = ['$dp = 2']\n"}),
              HasSubstr("(built in) dropped"));
}

TEST(SearchSpaceOptions, ARuleSetIsANameOrAFileNextToTheManifest) {
  const fakes::TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "sub");
  std::filesystem::create_directory(folder.path() / "rules");
  fakes::WriteFile(folder.path() / "own.rules", "$tp > 1\n");
  fakes::WriteFile(folder.path() / "sub" / "plain", "$tp > 2\n");
  fakes::WriteFile(folder.path() / "rules" / "known.rules", "$tp > 3\n");
  const auto rule = [&](const std::string& name) {
    fakes::WriteFile(folder.path() / "m.toml",
                     "[space]\nrule_sets = ['" + name + "']\n");
    const SearchSpaceOptions options = ReadSearchSpaceOptions(
        common::TomlTable::ParseFile(folder.path() / "m.toml")
            .GetTable("space"),
        folder.path() / "rules");
    return options.rules.at(0).expression();
  };
  EXPECT_EQ(rule("own.rules"), "$tp > 1");
  EXPECT_EQ(rule("sub/plain"), "$tp > 2");
  EXPECT_EQ(rule("known"), "$tp > 3");
  EXPECT_THROW((void)rule("own"), common::InputError);
}

// 4000 x 4000 are 16 million, before any of them is dropped.
TEST(SearchSpace, ListsOfTooManyConfigurationsAreAnError) {
  std::vector<int> sizes(4000);
  std::iota(sizes.begin(), sizes.end(), 1);
  SearchSpaceOptions options;
  options.where = "fig.toml:2";
  options.values = {{"dp", sizes}, {"tp", sizes}};
  EXPECT_THAT(
      fakes::ErrorOf(
          [&] { return SearchSpace::Enumerate(MakeWorkload({}), 8, options); }),
      StartsWith("fig.toml:2: the lists of tp and other fields make more than "
                 "10000000 configurations"));
}

TEST(InertLists, NameEveryListThatNoConfigurationUses) {
  const Problem problem{"", 4, 4, 4, 4, 8, "pp = [1]\ntp = [1]\n"};
  const auto inert = [&](const std::string& lists) {
    return InertLists(ParseOptions(problem.space + lists), Enumerate(problem));
  };
  EXPECT_EQ(inert(""), "");
  EXPECT_EQ(inert("model_chunks = [1]\n"), "");  // the default
  EXPECT_EQ(inert("model_chunks = [1, 2]\nsp = [2]\n"),
            "the list of model_chunks has no effect: no configuration has pp > "
            "1; the list of sp has no effect: no configuration has tp > 1");
  EXPECT_EQ(InertLists(ParseOptions("model_chunks = [1, 2]\n"),
                       Enumerate({"", 4, 4, 4, 4, 8, ""})),
            "");
}

}  // namespace trials::search_space_test
