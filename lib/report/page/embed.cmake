# Writes OUTPUT: a C++ file that holds the page, its style and script, and the D3 library as text.
set(text "#include \"report/page.h\"\nnamespace roofcast::page {\n")
foreach(item "html;${PAGE}/page.html" "style;${PAGE}/page.css" "script;${PAGE}/page.js" "library;${D3}")
  list(GET item 0 name)
  list(GET item 1 file)
  file(READ ${file} bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND text "static const unsigned char ${name}_bytes[] = {${bytes}};\n"
    "std::string_view ${name}() { return {reinterpret_cast<const char*>(${name}_bytes), sizeof ${name}_bytes}; }\n")
endforeach()
string(APPEND text "}\n")
file(WRITE ${OUTPUT} "${text}")
