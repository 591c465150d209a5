# Hardware files are TOML, read by toml++ (headers only).
find_path(TOMLPLUSPLUS_INCLUDE toml++/toml.h REQUIRED)
target_include_directories(roofcast SYSTEM PRIVATE ${TOMLPLUSPLUS_INCLUDE})
