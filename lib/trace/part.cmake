# gzip by zlib, Nsight Systems exports by SQLite.
find_package(ZLIB REQUIRED)
find_package(SQLite3 REQUIRED)
target_link_libraries(roofcast PRIVATE ZLIB::ZLIB SQLite::SQLite3)
