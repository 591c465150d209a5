# ONNX's message classes, generated from the proto file of an installed ONNX package: the `onnx`
# wheel (newest), else Debian's libonnx-dev. ROOFCAST_ONNX_PROTO names another file.
find_package(Protobuf REQUIRED)

set(ROOFCAST_ONNX_PROTO "" CACHE FILEPATH "onnx-ml.proto to build against (found if empty)")
if(NOT ROOFCAST_ONNX_PROTO)
  find_program(ROOFCAST_PYTHON NAMES python3)
  foreach(python ${CMAKE_SOURCE_DIR}/build/python/bin/python ${ROOFCAST_PYTHON})
    execute_process(
      COMMAND ${python} -c "import importlib.util, pathlib; print(pathlib.Path(importlib.util.find_spec('onnx').origin).parent / 'onnx-ml.proto')"
      OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
    if(status EQUAL 0 AND EXISTS ${found})
      set(ROOFCAST_ONNX_PROTO ${found} CACHE FILEPATH "" FORCE)
      break()
    endif()
  endforeach()
  if(NOT ROOFCAST_ONNX_PROTO)
    find_file(ROOFCAST_ONNX_PROTO_SYSTEM onnx/onnx-ml.proto)
    if(ROOFCAST_ONNX_PROTO_SYSTEM)
      set(ROOFCAST_ONNX_PROTO ${ROOFCAST_ONNX_PROTO_SYSTEM} CACHE FILEPATH "" FORCE)
    else()
      message(FATAL_ERROR "no onnx-ml.proto found: `tools/setup.sh` installs it, or pip install onnx, "
                          "or set ROOFCAST_ONNX_PROTO")
    endif()
  endif()
endif()
message(STATUS "ONNX definitions: ${ROOFCAST_ONNX_PROTO}")

set(proto_dir ${CMAKE_BINARY_DIR}/generated)
file(MAKE_DIRECTORY ${proto_dir})
get_filename_component(proto_source_dir ${ROOFCAST_ONNX_PROTO} DIRECTORY)
add_custom_command(
  OUTPUT ${proto_dir}/onnx-ml.pb.cc ${proto_dir}/onnx-ml.pb.h
  COMMAND protobuf::protoc --proto_path=${proto_source_dir} --cpp_out=${proto_dir} ${ROOFCAST_ONNX_PROTO}
  DEPENDS ${ROOFCAST_ONNX_PROTO} VERBATIM)
add_library(onnx_proto STATIC ${proto_dir}/onnx-ml.pb.cc ${proto_dir}/onnx-ml.pb.h)
target_include_directories(onnx_proto SYSTEM PUBLIC ${proto_dir})
target_link_libraries(onnx_proto PUBLIC protobuf::libprotobuf-lite)
target_link_libraries(roofcast PRIVATE onnx_proto)
