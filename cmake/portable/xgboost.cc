// The functions of XGBoost that surrogates/boosted_trees calls, for a program
// that is not linked to the library. They load it when the first one is called.
// Errors: throws InputError if it is not installed.

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

// The library that OPPA_XGBOOST names, that of the environment of Python that
// the program is in (the second pattern: pip install --target), or the
// system's.
std::string LibraryFile() {
  if (const char* named = std::getenv("OPPA_XGBOOST")) {
    return named;
  }
  std::error_code error;
  const std::filesystem::path prefix =
      std::filesystem::read_symlink("/proc/self/exe", error)
          .parent_path()
          .parent_path();
  std::string file = "libxgboost.so.0";
  for (const char* pattern : {"lib/python3*/*-packages/", ""}) {
    glob_t found{};
    if (glob((prefix / pattern / "xgboost/lib/libxgboost.so").c_str(), 0,
             nullptr, &found) == 0) {
      file = found.gl_pathv[0];
    }
    globfree(&found);
  }
  return file;
}

void* Find(const char* function) {
  static std::string error;
  static void* const library = [] {
    void* const loaded = dlopen(LibraryFile().c_str(), RTLD_NOW);
    error = loaded == nullptr ? dlerror() : "not version 1";
    return loaded;
  }();
  void* const found = library == nullptr ? nullptr : dlsym(library, function);
  if (found == nullptr) {
    throw common::InputError(fmt::format(
        "XGBoost, which this method needs, could not be loaded: install it "
        "next to oppa (pip install 'oppa-planner[xgboost]'), or set "
        "OPPA_XGBOOST to its library ({})",
        error));
  }
  return found;
}

template <typename Result, typename... Parameters>
Result Call(Result (* /*signature*/)(Parameters...), const char* function,
            Parameters... arguments) {
  return reinterpret_cast<Result (*)(Parameters...)>(Find(function))(
      arguments...);
}

}  // namespace

const char* XGBGetLastError() {
  return Call(XGBGetLastError, "XGBGetLastError");
}

int XGDMatrixCreateFromMat(const float* data, bst_ulong rows, bst_ulong columns,
                           float missing, DMatrixHandle* matrix) {
  return Call(XGDMatrixCreateFromMat, "XGDMatrixCreateFromMat", data, rows,
              columns, missing, matrix);
}

int XGDMatrixFree(DMatrixHandle matrix) {
  return Call(XGDMatrixFree, "XGDMatrixFree", matrix);
}

int XGDMatrixSetFloatInfo(DMatrixHandle matrix, const char* field,
                          const float* values, bst_ulong length) {
  return Call(XGDMatrixSetFloatInfo, "XGDMatrixSetFloatInfo", matrix, field,
              values, length);
}

int XGBoosterCreate(const DMatrixHandle matrices[], bst_ulong length,
                    BoosterHandle* booster) {
  return Call(XGBoosterCreate, "XGBoosterCreate", matrices, length, booster);
}

int XGBoosterFree(BoosterHandle booster) {
  return Call(XGBoosterFree, "XGBoosterFree", booster);
}

int XGBoosterSetParam(BoosterHandle booster, const char* name,
                      const char* value) {
  return Call(XGBoosterSetParam, "XGBoosterSetParam", booster, name, value);
}

int XGBoosterUpdateOneIter(BoosterHandle booster, int iteration,
                           DMatrixHandle matrix) {
  return Call(XGBoosterUpdateOneIter, "XGBoosterUpdateOneIter", booster,
              iteration, matrix);
}

int XGBoosterPredict(BoosterHandle booster, DMatrixHandle matrix, int options,
                     unsigned trees, int training, bst_ulong* length,
                     const float** values) {
  return Call(XGBoosterPredict, "XGBoosterPredict", booster, matrix, options,
              trees, training, length, values);
}
