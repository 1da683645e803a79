# Looks for a CUDA compiler. Where there is one, OPPA_CUDA is true and targets can
# have .cu sources. Nothing requires it, and nothing links libcuda, which only
# machines with a driver have: everything that is built starts without a GPU.
option(OPPA_USE_CUDA "Look for a CUDA compiler" ON)
set(OPPA_CUDA FALSE)
if(NOT OPPA_USE_CUDA)
  return()
endif()
include(CheckLanguage)
find_program(NVCC nvcc HINTS /usr/local/cuda/bin)
if(NVCC AND NOT CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER ${NVCC})
endif()
check_language(CUDA)
if(CMAKE_CUDA_COMPILER)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80 90 100)
  endif()
  enable_language(CUDA)
  find_package(CUDAToolkit)
  if(TARGET CUDA::cublasLt)
    set(OPPA_CUDA TRUE)
  endif()
  # The package of NCCL for Python has no libnccl.so.
  find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ENV NCCL_HOME ${CUDAToolkit_LIBRARY_DIR} PATH_SUFFIXES lib)
  find_path(NCCL_INCLUDE nccl.h HINTS ENV NCCL_HOME ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
  # cuDNN, and its frontend, which is headers only: `pip install --no-deps --target build/cudnn-frontend
  # nvidia-cudnn-frontend==1.14.1`. Later ones need NVRTC.
  find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ENV CUDNN_HOME ${CUDAToolkit_LIBRARY_DIR} PATH_SUFFIXES lib)
  find_path(CUDNN_INCLUDE cudnn.h HINTS ENV CUDNN_HOME ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
  find_path(CUDNN_FRONTEND_INCLUDE cudnn_frontend.h HINTS ${CMAKE_SOURCE_DIR}/build/cudnn-frontend PATH_SUFFIXES include)
endif()
