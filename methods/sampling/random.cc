#include "methods/sampling/random.h"

#include "methods/history.h"

namespace methods {
namespace {

class Random final : public Method {
 public:
  Random(const Problem& problem, const RandomOptions& options,
         std::uint64_t seed)
      : Method(problem), problem_(problem), options_(options), seed_(seed) {}

  std::optional<Suggestion> Suggest() override {
    if (history_.exhausted()) {
      return std::nullopt;
    }
    return SuggestRandom(problem_, history_, options_.draw, seed_);
  }

 private:
  Problem problem_;
  RandomOptions options_;
  std::uint64_t seed_;
};

}  // namespace

std::unique_ptr<Method> MakeRandom(const Problem& problem,
                                   const RandomOptions& options,
                                   std::uint64_t seed) {
  return std::make_unique<Random>(problem, options, seed);
}

}  // namespace methods
