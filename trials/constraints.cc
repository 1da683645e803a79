#include "trials/constraints.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <stdexcept>

#include <fmt/format.h>

#include "trials/rules.h"

namespace trials {
namespace {

using PC = ParallelConfig;
using Context = ConstraintContext;
using enum KnobGroup;

// One paragraph a row.
// clang-format off
constexpr std::array kConstraints = {
    Constraint{
        "dp * tp * pp * cp != num_gpus",
        "dp * tp * pp * cp must be the number of GPUs", kSizes,
        [](const PC& c, const Context& p) {
          return !p.any_gpus &&
                 std::int64_t{c.dp} * c.tp * c.pp * c.cp != p.gpus;
        },
        "in plans, which may use several types of GPUs, and up to as many as "
        "there are of each"},
    Constraint{
        "heads % tp != 0",
        "tp must divide the number of attention heads", kSizes,
        [](const PC& c, const Context& p) {
          return p.workload.model.attention_heads % c.tp != 0;
        }},
    Constraint{
        "kv_heads % tp != 0",
        "tp must divide the number of key-value heads", kSizes,
        [](const PC& c, const Context& p) {
          return !p.replicated_kv_heads &&
                 p.workload.model.kv_heads % c.tp != 0;
        },
        "in simulations of given configurations and plans, and for frameworks "
        "with `shares_kv_heads`: some replicate key-value heads"},
    Constraint{
        "sequence_length % cp != 0",
        "cp must divide the sequence length", kSizes,
        [](const PC& c, const Context& p) {
          return p.workload.sequence_length % c.cp != 0;
        }},
    Constraint{
        "pp * model_chunks > layers",
        "pp * model_chunks must not exceed the number of layers", kPipeline,
        [](const PC& c, const Context& p) {
          constexpr int kEnds = 2;  // embedding and head
          return !p.empty_stages &&
                 std::int64_t{c.pp} * c.model_chunks >
                     p.workload.model.layers + (p.ends_as_layers ? kEnds : 0);
        },
        "in plans, which list the layers of each stage; by up to 2 in "
        "simulations and for frameworks with `ends_as_layers`, where embedding "
        "and head may be stages of their own"},
    Constraint{
        "batch_size % (dp * microbatches) != 0",
        "dp * microbatches must divide the batch size", kPipeline,
        [](const PC& c, const Context& p) {
          return p.workload.batch_size %
                     (std::int64_t{c.dp} * c.microbatches) != 0;
        }},
    Constraint{
        "microbatches < pp",
        "1F1B needs a microbatch for each stage to fill the pipeline",
        kPipeline,
        [](const PC& c, const Context& p) {
          return c.microbatches < c.pp - p.unfilled_stages;
        },
        "in simulations of given configurations and plans, because such runs "
        "were measured; a framework with `full_pipeline` needs `pp - 1`"},
    Constraint{
        "model_chunks > 1 && microbatches % pp != 0",
        "the interleaved schedule needs microbatches to be a multiple of pp, "
        "or it deadlocks", kPipeline,
        [](const PC& c, const Context&) {
          return c.model_chunks > 1 && c.microbatches % c.pp != 0;
        }},
    Constraint{
        "dp % ep != 0",
        "ep must divide dp (dp * tp * cp if a rank holds whole experts): experts "
        "are distributed over these ranks",
        kOther,
        [](const PC& c, const Context& p) {
          const bool whole = c.etp > 0 ? c.etp == 1 : p.whole_experts;
          return (whole ? std::int64_t{c.dp} * c.tp * c.cp : c.dp) % c.ep != 0;
        },
        "with `etp = 1` and for frameworks with `whole_experts`, where ep must "
        "divide dp * tp * cp"},
    Constraint{
        "etp > 1 && etp != tp",
        "etp must be 1 or tp: an expert is whole or split as other layers are",
        kOther,
        [](const PC& c, const Context&) {
          return c.etp > 1 && c.etp != c.tp;
        }},
    Constraint{
        "ep > 1 && (experts = 0 || experts % ep != 0)",
        "ep must divide the number of experts", kOther,
        [](const PC& c, const Context& p) {
          const int experts = p.workload.model.experts;
          return c.ep > 1 && (experts == 0 || experts % c.ep != 0);
        }},
    Constraint{
        "sp > 1 && sp != tp",
        "sp must be 1 or tp: the ranks of a tensor-parallel group split the "
        "sequence; for a group of its own, use cp", kOther,
        [](const PC& c, const Context&) { return c.sp > 1 && c.sp != c.tp; }},
    Constraint{
        "sp > 1 && sequence_length % (cp * sp) != 0",
        "cp * sp must divide the sequence length", kOther,
        [](const PC& c, const Context& p) {
          return c.sp > 1 && p.workload.sequence_length %
                                     (std::int64_t{c.cp} * c.sp) != 0;
        }},
    Constraint{
        "dp % dp_replicate != 0",
        "dp_replicate must divide dp: each copy has as many ranks", kSharding,
        [](const PC& c, const Context&) { return c.dp % c.dp_replicate != 0; }},
    Constraint{
        "dp * microbatches * micro_batch_size != batch_size",
        "dp * microbatches * micro_batch_size must be the batch size", kFixed,
        [](const PC& c, const Context& p) {
          return c.micro_batch_size > 0 &&
                 std::int64_t{c.dp} * c.microbatches * c.micro_batch_size !=
                     p.workload.batch_size;
        }},
};
// clang-format on

// "heads = 16, tp = 3": the variables of a rule and their values.
std::string Values(const Constraint& constraint, const ParallelConfig& config,
                   const Context& context) {
  Rule::Context known = RuleContext(context.workload, context.gpus);
  for (const Knob& knob : BuiltInKnobs()) {
    known.emplace(knob.name, knob.Get(config));
  }
  std::string words = fmt::format(" {} ", constraint.rule);
  const auto is_other = [](unsigned char c) {
    return std::isalnum(c) == 0 && c != '_';
  };
  std::ranges::replace_if(words, is_other, ' ');
  std::string text;
  for (const auto& [name, value] : known) {
    if (words.find(" " + name + " ") != std::string::npos) {
      text +=
          fmt::format("{}{} = {:.0f}", text.empty() ? "" : ", ", name, value);
    }
  }
  return text;
}

}  // namespace

std::span<const Constraint> Constraints() { return kConstraints; }

std::string Sentence(const Constraint& constraint, const ParallelConfig& config,
                     const ConstraintContext& context) {
  return fmt::format("{} ({})", constraint.requirement,
                     Values(constraint, config, context));
}

std::string ConfigProblem(const ParallelConfig& config,
                          const ConstraintContext& context) {
  for (const Knob& knob : BuiltInKnobs()) {
    if (!knob.InRange(knob.Get(config))) {
      return knob.InvalidValue(std::to_string(knob.Get(config)));
    }
  }
  for (const Constraint& constraint : kConstraints) {
    if (constraint.broken(config, context)) {
      return Sentence(constraint, config, context);
    }
  }
  return "";
}

void RequireWholeMicrobatches(const ParallelConfig& config, int batch_size) {
  if (batch_size % config.dp != 0) {
    throw std::invalid_argument(fmt::format(
        "dp={} does not divide the batch of {}", config.dp, batch_size));
  }
  const int of_rank = batch_size / config.dp;
  if (of_rank % config.microbatches == 0) {
    return;
  }
  int below = std::min(config.microbatches, of_rank);
  while (of_rank % below != 0) {
    --below;
  }
  int above = config.microbatches;
  while (above < of_rank && of_rank % above != 0) {
    ++above;
  }
  throw std::invalid_argument(fmt::format(
      "microbatches={} does not divide the batch of {} on dp={} ranks; the "
      "nearest that {}",
      config.microbatches, batch_size, config.dp,
      above > of_rank ? fmt::format("does is {}", below)
                      : fmt::format("do are {} and {}", below, above)));
}

std::string ConstraintTable() {
  std::string table =
      "| dropped if | requirement | need not hold |\n| --- | --- | --- |\n";
  for (const Constraint& constraint : kConstraints) {
    std::string rule;  // a cell ends at an unescaped '|'
    for (const char c : constraint.rule) {
      rule += c == '|' ? "\\|" : std::string(1, c);
    }
    table += fmt::format("| `{}` | {} | {} |\n", rule, constraint.requirement,
                         constraint.relaxed);
  }
  return table;
}

}  // namespace trials
