#include "methods/planners/operators/operator_plan.h"

#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/format.h>

#include "common/files.h"
#include "common/hash.h"
#include "common/json.h"

namespace methods {
namespace {

using common::Json;

struct ListOf {
  const char* key;
  std::uint8_t OperatorChoice::*value;
  bool is_size;  // a power of two, written as it is
};
constexpr int kMostOperators = 1'000'000;

constexpr ListOf kLists[] = {
    {"model_parallel_size_of_each_op", &OperatorChoice::tp_log2, true},
    {"data_parallel_size_of_each_op", &OperatorChoice::dp_log2, true},
    {"recompute_ops", &OperatorChoice::recomputed, false},
    {"algo_of_each_op", &OperatorChoice::variant, false},
};

[[noreturn]] void Fail(const std::string& source, std::string_view key,
                       const std::string& rule) {
  throw common::InputError(fmt::format("{}: {}: {}", source, key, rule));
}

int ReadInteger(const Json& json, const char* key, const std::string& source) {
  try {
    return common::ToInteger<int>(json);
  } catch (const std::invalid_argument& e) {
    Fail(source, key, e.what());
  }
}

std::uint8_t ValueOf(const ListOf& list, int value, const std::string& source) {
  if (!list.is_size) {
    if (value < 0 || value > 7) {
      Fail(source, list.key, fmt::format("{}: must be from 0 to 7", value));
    }
    return static_cast<std::uint8_t>(value);
  }
  if (value < 1 || !std::has_single_bit(static_cast<unsigned>(value))) {
    Fail(source, list.key, fmt::format("{}: must be a power of two", value));
  }
  return static_cast<std::uint8_t>(
      std::countr_zero(static_cast<unsigned>(value)));
}

void ReadList(const Json& json, const ListOf& list, const std::string& source,
              OperatorPlan& plan) {
  const Json& stages = json.at(list.key);
  for (int s = 0; s < plan.stages(); ++s) {
    const auto at = static_cast<std::size_t>(s);
    const auto count = static_cast<std::size_t>(plan.first[at + 1]) -
                       static_cast<std::size_t>(plan.first[at]);
    if (at >= stages.size() || stages[at].size() != count) {
      Fail(source, list.key,
           fmt::format("stage {} must have {} values", s + 1, count));
    }
    for (std::size_t i = 0; i < count; ++i) {
      plan.choices[static_cast<std::size_t>(plan.first[at]) + i].*list.value =
          ValueOf(list, ReadInteger(stages[at][i], list.key, source), source);
    }
  }
}

}  // namespace

std::uint64_t HashOf(const OperatorPlan& plan) {
  const auto bytes = [](const auto& values) {
    return std::string_view(reinterpret_cast<const char*>(values.data()),
                            values.size() * sizeof(values[0]));
  };
  static_assert(sizeof(OperatorChoice) == 4);  // no padding
  const std::uint64_t choices = common::Hash(bytes(plan.choices));
  return common::DeriveSeed(
      bytes(plan.first),
      choices + static_cast<std::uint64_t>(plan.micro_batch));
}

std::string ToString(const OperatorPlan& plan) {
  std::string text =
      fmt::format("{} stages, microbatch {}:", plan.stages(), plan.micro_batch);
  for (int s = 0; s < plan.stages(); ++s) {
    const auto begin = plan.choices.begin() + plan.first[std::size_t(s)];
    const auto end = plan.choices.begin() + plan.first[std::size_t(s) + 1];
    const auto recomputed = std::count_if(
        begin, end, [](const OperatorChoice& c) { return c.recomputed != 0; });
    const bool mixed = std::any_of(begin, end, [&](const OperatorChoice& c) {
      return c.tp_log2 != begin->tp_log2 || c.variant != begin->variant;
    });
    text += fmt::format("{} {} x tp{} dp{}{}", s == 0 ? "" : " |", end - begin,
                        1 << begin->tp_log2, 1 << begin->dp_log2,
                        mixed ? " mixed" : "");
    if (recomputed > 0) {
      text += fmt::format(" ({} recomputed)", recomputed);
    }
  }
  return text;
}

PlanFile ParsePlan(std::string_view text, const std::string& source) {
  const Json json = common::ParseJson(text, source);
  PlanFile file;
  try {
    file.batch =
        ReadInteger(json.at("global_batch_size"), "global_batch_size", source);
    file.plan.micro_batch =
        ReadInteger(json.at("micro_batch_size"), "micro_batch_size", source);
    file.plan.first = {0};
    for (const Json& count : json.at("num_ops_in_each_stage")) {
      const int operators = ReadInteger(count, "num_ops_in_each_stage", source);
      if (operators < 1 ||
          operators > kMostOperators - file.plan.first.back()) {
        Fail(source, "num_ops_in_each_stage",
             fmt::format("each must be at least 1, together at most {}",
                         kMostOperators));
      }
      file.plan.first.push_back(file.plan.first.back() + operators);
    }
    if (file.plan.stages() < 1 || file.plan.micro_batch < 1 || file.batch < 1) {
      Fail(source, "micro_batch_size, global_batch_size, num_ops_in_each_stage",
           "must be positive");
    }
    file.plan.choices.resize(file.plan.first.back());
    for (const ListOf& list : kLists) {
      ReadList(json, list, source, file.plan);
    }
  } catch (const Json::exception& e) {
    throw common::InputError(source + ": " + e.what());
  }
  return file;
}

PlanFile ReadPlan(const std::filesystem::path& path) {
  return ParsePlan(common::ReadFile(path), path.string());
}

std::string ToJsonText(const PlanFile& file) {
  const OperatorPlan& plan = file.plan;
  Json json;
  json["global_batch_size"] = file.batch;
  json["micro_batch_size"] = plan.micro_batch;
  json["num_stages"] = plan.stages();
  for (int s = 0; s < plan.stages(); ++s) {
    const int begin = plan.first[std::size_t(s)];
    const int end = plan.first[std::size_t(s) + 1];
    json["num_gpus"].push_back(plan.GpusOf(s));
    json["num_ops_in_each_stage"].push_back(end - begin);
    for (const ListOf& list : kLists) {
      Json values = Json::array();
      for (int i = begin; i < end; ++i) {
        const int value = plan.choices[i].*list.value;
        values.push_back(list.is_size ? 1 << value : value);
      }
      json[list.key].push_back(std::move(values));
    }
  }
  return common::ToText(json);
}

}  // namespace methods
