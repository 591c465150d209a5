# The HTML report's page, and D3 from the distribution (libjs-d3), become text inside the library.
find_file(ROOFCAST_D3 d3.min.js PATHS /usr/share/javascript/d3 REQUIRED)
set(page_dir ${CMAKE_CURRENT_SOURCE_DIR}/report/page)
set(embedded ${CMAKE_BINARY_DIR}/generated/page.cpp)
add_custom_command(
  OUTPUT ${embedded}
  COMMAND ${CMAKE_COMMAND} -DOUTPUT=${embedded} -DD3=${ROOFCAST_D3} -DPAGE=${page_dir} -P ${page_dir}/embed.cmake
  DEPENDS ${page_dir}/page.html ${page_dir}/page.css ${page_dir}/page.js ${page_dir}/embed.cmake ${ROOFCAST_D3} VERBATIM)
target_sources(roofcast PRIVATE ${embedded})
