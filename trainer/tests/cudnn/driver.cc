// A driver of CUDA without a GPU: cuDNN looks for its functions, but only
// compiling and running a kernel would call them.

// NOLINTBEGIN(readability-identifier-naming): the names of CUDA
#define OPPA_DRIVER_FUNCTION(name) \
  extern "C" int name() { return 0; }
OPPA_DRIVER_FUNCTION(cuInit)
OPPA_DRIVER_FUNCTION(cuCtxGetCurrent)
OPPA_DRIVER_FUNCTION(cuCtxGetLimit)
OPPA_DRIVER_FUNCTION(cuCtxPopCurrent)
OPPA_DRIVER_FUNCTION(cuCtxPushCurrent)
OPPA_DRIVER_FUNCTION(cuDeviceGet)
OPPA_DRIVER_FUNCTION(cuDeviceGetCount)
OPPA_DRIVER_FUNCTION(cuDriverGetVersion)
OPPA_DRIVER_FUNCTION(cuGetErrorName)
OPPA_DRIVER_FUNCTION(cuGetErrorString)
OPPA_DRIVER_FUNCTION(cuKernelGetAttribute)
OPPA_DRIVER_FUNCTION(cuKernelSetAttribute)
OPPA_DRIVER_FUNCTION(cuLaunchCooperativeKernel)
OPPA_DRIVER_FUNCTION(cuLaunchKernel)
OPPA_DRIVER_FUNCTION(cuLaunchKernelEx)
OPPA_DRIVER_FUNCTION(cuLibraryGetKernel)
OPPA_DRIVER_FUNCTION(cuLibraryLoadData)
OPPA_DRIVER_FUNCTION(cuLibraryLoadFromFile)
OPPA_DRIVER_FUNCTION(cuLibraryUnload)
OPPA_DRIVER_FUNCTION(cuLinkAddData)
OPPA_DRIVER_FUNCTION(cuLinkComplete)
OPPA_DRIVER_FUNCTION(cuLinkCreate)
OPPA_DRIVER_FUNCTION(cuLinkDestroy)
OPPA_DRIVER_FUNCTION(cuOccupancyMaxPotentialClusterSize)
OPPA_DRIVER_FUNCTION(cuStreamGetCtx)
// NOLINTEND(readability-identifier-naming)
