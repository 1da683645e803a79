// The functions of XGBoost that boosted_trees.cc calls. The program is not
// linked to the library, of which loading takes half of its start: they load it
// when the first one is called. Errors: throws InputError if it is not
// installed.

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <dlfcn.h>
#include <fmt/format.h>
#include <glob.h>
#include <xgboost/c_api.h>

#include "common/error.h"

namespace {

// The library that OPPA_XGBOOST names, that of the environment of Python or
// Conda that the program is in (the second pattern: pip install --target), or
// the system's.
std::string XgboostFile() {
  if (const char* named = std::getenv("OPPA_XGBOOST")) {
    return named;
  }
  std::error_code error;
  const std::filesystem::path prefix =
      std::filesystem::read_symlink("/proc/self/exe", error)
          .parent_path()
          .parent_path();
  std::string file = "libxgboost.so.0";
  for (const char* pattern :
       {"lib/python3*/*-packages/xgboost/lib/libxgboost.so",
        "xgboost/lib/libxgboost.so", "lib/libxgboost.so"}) {
    glob_t found{};
    if (glob((prefix / pattern).c_str(), 0, nullptr, &found) == 0) {
      file = found.gl_pathv[0];
    }
    globfree(&found);
  }
  return file;
}

void* XgboostSymbol(const char* function) {
  static std::string error;
  static void* const library = [] {
    void* const loaded = dlopen(XgboostFile().c_str(), RTLD_NOW);
    error = loaded == nullptr ? dlerror() : "not version 1";
    return loaded;
  }();
  void* const found = library == nullptr ? nullptr : dlsym(library, function);
  if (found == nullptr) {
    throw common::InputError(fmt::format(
        "XGBoost, which this method needs, could not be loaded: install it "
        "(apt install libxgboost0; pip install 'oppa-planner[xgboost]'), or "
        "set OPPA_XGBOOST to its library ({})",
        error));
  }
  return found;
}

template <typename Result, typename... Parameters>
Result CallXgboost(Result (* /*signature*/)(Parameters...),
                   const char* function, Parameters... arguments) {
  return reinterpret_cast<Result (*)(Parameters...)>(XgboostSymbol(function))(
      arguments...);
}

}  // namespace

const char* XGBGetLastError() {
  return CallXgboost(XGBGetLastError, "XGBGetLastError");
}

int XGDMatrixCreateFromMat(const float* data, bst_ulong rows, bst_ulong columns,
                           float missing, DMatrixHandle* matrix) {
  return CallXgboost(XGDMatrixCreateFromMat, "XGDMatrixCreateFromMat", data,
                     rows, columns, missing, matrix);
}

int XGDMatrixFree(DMatrixHandle matrix) {
  return CallXgboost(XGDMatrixFree, "XGDMatrixFree", matrix);
}

int XGDMatrixSetFloatInfo(DMatrixHandle matrix, const char* field,
                          const float* values, bst_ulong length) {
  return CallXgboost(XGDMatrixSetFloatInfo, "XGDMatrixSetFloatInfo", matrix,
                     field, values, length);
}

int XGBoosterCreate(const DMatrixHandle matrices[], bst_ulong length,
                    BoosterHandle* booster) {
  return CallXgboost(XGBoosterCreate, "XGBoosterCreate", matrices, length,
                     booster);
}

int XGBoosterFree(BoosterHandle booster) {
  return CallXgboost(XGBoosterFree, "XGBoosterFree", booster);
}

int XGBoosterSetParam(BoosterHandle booster, const char* name,
                      const char* value) {
  return CallXgboost(XGBoosterSetParam, "XGBoosterSetParam", booster, name,
                     value);
}

int XGBoosterUpdateOneIter(BoosterHandle booster, int iteration,
                           DMatrixHandle matrix) {
  return CallXgboost(XGBoosterUpdateOneIter, "XGBoosterUpdateOneIter", booster,
                     iteration, matrix);
}

int XGBoosterPredict(BoosterHandle booster, DMatrixHandle matrix, int options,
                     unsigned trees, int training, bst_ulong* length,
                     const float** values) {
  return CallXgboost(XGBoosterPredict, "XGBoosterPredict", booster, matrix,
                     options, trees, training, length, values);
}
