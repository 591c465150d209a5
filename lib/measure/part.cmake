# Running ops takes libraries that nothing else needs: without them `validate` and `calibrate` say so.
file(GLOB measure_cpu CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/measure/cpu/*.cpp)

option(ROOFCAST_CPU "the CPU backend, where oneDNN and Eigen are found" ON)
if(ROOFCAST_CPU)
  # Not by its package file: Debian's asks for OpenCL's headers.
  find_path(DNNL_INCLUDE oneapi/dnnl/dnnl.hpp)
  find_library(DNNL_LIBRARY dnnl)
  find_package(Eigen3 QUIET)
  find_package(OpenMP QUIET COMPONENTS CXX)
endif()
if(ROOFCAST_CPU AND DNNL_INCLUDE AND DNNL_LIBRARY AND Eigen3_FOUND AND OpenMP_CXX_FOUND)
  target_sources(roofcast PRIVATE ${measure_cpu})
  # Their loops are what is timed, in every build.
  set_source_files_properties(${measure_cpu} PROPERTIES COMPILE_OPTIONS -O3)
  target_link_libraries(roofcast PRIVATE ${DNNL_LIBRARY} Eigen3::Eigen OpenMP::OpenMP_CXX)
  target_include_directories(roofcast SYSTEM PRIVATE ${DNNL_INCLUDE})
  target_compile_definitions(roofcast PUBLIC ROOFCAST_CPU)
else()
  message(STATUS "CPU backend: left out (it takes oneDNN, Eigen and OpenMP: apt install libdnnl-dev libeigen3-dev)")
endif()

# CUDA (preset `cuda`): kernels compiled for every architecture from Turing on.
option(ROOFCAST_CUDA "the CUDA backend: cuBLASLt, cuDNN, own kernels" OFF)
if(ROOFCAST_CUDA)
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 86-real 89-real 90-real 100)
  endif()
  # Found where it is installed although its folder is in no PATH.
  find_program(CMAKE_CUDA_COMPILER nvcc HINTS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES bin)
  enable_language(CUDA)
  find_package(CUDAToolkit 13 REQUIRED)
  find_path(CUDNN_INCLUDE cudnn_graph.h HINTS ${CUDAToolkit_INCLUDE_DIRS} REQUIRED)
  find_library(CUDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR} REQUIRED)
  find_library(CUDNN_GRAPH_LIBRARY cudnn_graph HINTS ${CUDAToolkit_LIBRARY_DIR})
  file(GLOB measure_cuda CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/measure/cuda/*.cpp ${CMAKE_CURRENT_SOURCE_DIR}/measure/cuda/*.cu)
  # A target of its own, so that a machine without a device can compile just this.
  # CMake 3.25 does not know how to ask nvcc for C++20.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  add_library(roofcast_cuda OBJECT ${measure_cuda})
  target_include_directories(roofcast_cuda PRIVATE ${CMAKE_SOURCE_DIR}/include ${CMAKE_CURRENT_SOURCE_DIR})
  target_include_directories(roofcast_cuda SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS} ${CUDNN_INCLUDE})
  set(warnings -Wall -Wextra -Wno-missing-field-initializers -Wno-restrict)
  list(JOIN warnings "," host_warnings)
  target_compile_options(roofcast_cuda PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:${warnings} -Werror>
    $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings -lineinfo --threads=0 -Xcompiler=${host_warnings},-Werror>)
  target_sources(roofcast PRIVATE $<TARGET_OBJECTS:roofcast_cuda>)
  target_link_libraries(roofcast PRIVATE CUDA::cudart CUDA::cublasLt ${CUDNN_LIBRARY}
    $<$<BOOL:${CUDNN_GRAPH_LIBRARY}>:${CUDNN_GRAPH_LIBRARY}> ${CMAKE_DL_LIBS})
  target_compile_definitions(roofcast PUBLIC ROOFCAST_CUDA)
endif()
