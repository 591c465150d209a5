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
