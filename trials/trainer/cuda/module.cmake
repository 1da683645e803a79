# The modules that oppa-train loads: libtrainer_cuda.so, where there is a CUDA
# compiler, and libtrainer_emulated.so, the same sources on the CPU, for tests.
file(GLOB cuda_kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/trials/trainer/cuda/*.cu)
set(cuda_folder ${CMAKE_SOURCE_DIR}/trials/trainer/cuda)
# What needs neither CUDA nor the emulation, compiled with either.
set(cuda_common ${cuda_folder}/card_fabric.cc ${cuda_folder}/module.cc)

include(GNUInstallDirs)
set_property(TARGET oppa-train APPEND PROPERTY INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")

# trainer_module(NAME SOURCES...)
function(trainer_module name)
  add_library(${name} MODULE ${cuda_common} ${ARGN})
  target_link_libraries(${name} PRIVATE fmt::fmt Threads::Threads)
  set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
endfunction()

set(emulated_kernels)
foreach(kernel ${cuda_kernels})
  cmake_path(GET kernel STEM stem)
  set(wrapper ${CMAKE_BINARY_DIR}/emulated/${stem}.cc)
  file(CONFIGURE OUTPUT ${wrapper} CONTENT "#include \"trials/trainer/cuda/${stem}.cu\"\n")
  list(APPEND emulated_kernels ${wrapper})
endforeach()
trainer_module(trainer_emulated ${emulated_kernels} ${cuda_folder}/emulation.cc ${cuda_folder}/gemm_emulated.cc
               ${cuda_folder}/gpus_emulated.cc)
target_compile_definitions(trainer_emulated PRIVATE OPPA_EMULATE_CUDA)
target_compile_options(trainer_emulated PRIVATE -Wno-unknown-pragmas)

if(OPPA_CUDA AND NCCL_LIBRARY AND NCCL_INCLUDE)
  file(GLOB nccl_sources CONFIGURE_DEPENDS ${cuda_folder}/nccl_*.cc)
  trainer_module(trainer_cuda ${cuda_kernels} ${nccl_sources} ${CMAKE_SOURCE_DIR}/common/hash.cc
                 ${cuda_folder}/gemm_cublas.cc ${cuda_folder}/gpus_cuda.cc)
  target_include_directories(trainer_cuda SYSTEM PRIVATE ${NCCL_INCLUDE})
  target_link_libraries(trainer_cuda PRIVATE CUDA::cudart_static CUDA::cublasLt ${NCCL_LIBRARY})
  # Debian's CMake knows no CUDA standard after 17. The warnings of the project
  # are not options of nvcc.
  set_target_properties(trainer_cuda PROPERTIES CUDA_STANDARD 17 COMPILE_OPTIONS
    "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow>" INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS trainer_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
