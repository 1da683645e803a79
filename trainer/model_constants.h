// Constants of a model that its results depend on, and its cost does not.

#ifndef TRAINER_MODEL_CONSTANTS_H_
#define TRAINER_MODEL_CONSTANTS_H_

#include <filesystem>

#include "common/error.h"

namespace trainer {

struct ModelConstants {
  double norm_epsilon = 1e-5;    // added to the variance in norms
  double rotary_base = 10000.0;  // of the periods of rotary positions
};

// Reads layer_norm_epsilon (GPT-2), layer_norm_eps (BERT, ViT) or rms_norm_eps,
// and rope_theta, of a Hugging Face config.json. Defaults are those of the
// library, transformers, for each model_type.
//
// Errors: throws InputError that names the file and the key.
[[nodiscard]] ModelConstants ReadModelConstants(
    const std::filesystem::path& config_json);

}  // namespace trainer

#endif  // TRAINER_MODEL_CONSTANTS_H_
