// Aligned text tables and styled words for terminals and pipes.
//
//   share     time    ×  op        shape
//  31.4 %  3.89 ms   64  MatMul    512×4096×14336 f16
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace roofcast {

enum class Align : unsigned char { left, right };
enum class Style : unsigned char { plain, bold, dim, red, green, yellow, blue };

// Wraps `text` in the style's escape codes if `color`, else returns it unchanged.
std::string styled(std::string_view text, Style style, bool color);

// Columns on a terminal: code points, wide East Asian ones not counted double.
size_t display_width(std::string_view text);

class Table {
public:
  explicit Table(bool color = false) : color_(color) {}
  void column(std::string_view header, Align align = Align::left);
  void row(std::vector<std::string> cells, Style style = Style::plain);
  // Every column as wide as its widest cell, two spaces between; trailing spaces removed.
  std::string text() const;
  // The same rows as a GitHub table.
  std::string markdown() const;
  // RFC 4180, header first.
  std::string csv() const;

private:
  struct Column {
    std::string header;
    Align align;
  };
  struct Row {
    std::vector<std::string> cells;
    Style style;
  };
  std::vector<Column> columns_;
  std::vector<Row> rows_;
  bool color_;
};

// One CSV cell, quoted if it must be.
std::string csv_cell(std::string_view text);

}  // namespace roofcast
