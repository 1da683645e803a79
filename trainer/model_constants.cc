#include "trainer/model_constants.h"

#include <algorithm>
#include <array>

#include "trials/config_file.h"

namespace trainer {
namespace {

struct Defaults {
  const char* type;
  const char* epsilon_key;
  ModelConstants constants;
};
constexpr std::array<Defaults, 5> kDefaults = {{
    {"gpt2", "layer_norm_epsilon", {1e-5, 10000.0}},
    {"bert", "layer_norm_eps", {1e-12, 10000.0}},
    {"vit", "layer_norm_eps", {1e-12, 10000.0}},
    {"mixtral", "rms_norm_eps", {1e-5, 1e6}},
    {"", "rms_norm_eps", {1e-6, 10000.0}},  // Llama, Qwen2 and the like
}};

}  // namespace

ModelConstants ReadModelConstants(const std::filesystem::path& config_json) {
  const trials::ConfigFile file(config_json);
  const std::string type = file.Text("model_type", "");
  const Defaults* found =
      std::find_if(kDefaults.begin(), kDefaults.end() - 1,
                   [&type](const Defaults& d) { return type == d.type; });
  ModelConstants constants = found->constants;
  constants.norm_epsilon =
      file.Number(found->epsilon_key, constants.norm_epsilon);
  constants.rotary_base = file.Number(
      "rope_theta",
      file.NumberIn("rope_parameters", "rope_theta", constants.rotary_base));
  if (constants.rotary_base <= 0.0) {
    file.Fail("rope_theta must be above 0");
  }
  return constants;
}

}  // namespace trainer
