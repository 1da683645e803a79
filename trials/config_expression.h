// Expressions that say how a config.json gives a size of a model.

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "trials/config_file.h"
#include "trials/model.h"

namespace trials {

// The value of an expression of experiments/models/types.toml (docs/models.md):
//
//   num_key_value_heads | $attention_heads
//   head_dim | $hidden_size / $attention_heads
//   count(i % attn_layer_period:8 == attn_layer_offset:4)
//
// Alternatives, separated by |, are tried in order; one that reads a key which
// the file lacks, and for which no default follows a colon, is skipped. A name
// is a key, $name a field of the model that was read before, `i` the number of
// a block. Operators: + - * / % == != < <= > >= && || ! and parentheses; flags
// are 0 and 1. Functions:
//
//   has(key), size(key)    whether the key is there; the length of its list, 0
//                          without it
//   is(key, text, ...)     whether it is one of these texts or numbers; of a
//                          list, and of a text of letters, the one of block i
//   in(key, number)        whether a list holds the number
//   count(c), share(c)     the blocks for which a condition holds, of all
//   floor(x), ceil(x), min(x, y), max(x, y)
//
// Errors: throws InputError for a syntax error, a value of another type and a
// list that is shorter than the model.
struct ConfigExpression {
  const ConfigFile& file;
  const Model& model;
  int block = -1;  // i; -1: none

  // Nothing if no alternative has a value; `missing` is then the first key that
  // is not there.
  [[nodiscard]] std::optional<double> Value(
      std::string_view text, std::string* missing = nullptr) const;
};

}  // namespace trials
