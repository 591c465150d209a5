#include "report/table.h"

#include <algorithm>

namespace roofcast {

std::string styled(std::string_view text, Style style, bool color) {
  if (!color || style == Style::plain) return std::string(text);
  constexpr const char* codes[] = {"0", "1", "2", "31", "32", "33", "34"};
  return std::string("\x1b[") + codes[static_cast<int>(style)] + "m" + std::string(text) + "\x1b[0m";
}

size_t display_width(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

void Table::column(std::string_view header, Align align) {
  columns_.push_back({std::string(header), align});
}

void Table::row(std::vector<std::string> cells, Style style) {
  cells.resize(columns_.size());
  rows_.push_back({std::move(cells), style});
}

std::string Table::text() const {
  std::vector<size_t> widths;
  for (size_t i = 0; i < columns_.size(); ++i) {
    size_t width = display_width(columns_[i].header);
    for (const Row& row : rows_) width = std::max(width, display_width(row.cells[i]));
    widths.push_back(width);
  }
  std::string out;
  auto line = [&](auto&& cell, Style style) {
    std::string text;
    for (size_t i = 0; i < columns_.size(); ++i) {
      const std::string& item = cell(i);
      const std::string pad(widths[i] - display_width(item), ' ');
      if (i) text += "  ";
      text += columns_[i].align == Align::right ? pad + item : item + pad;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += styled(text, style, color_) + "\n";
  };
  line([&](size_t i) -> const std::string& { return columns_[i].header; }, Style::dim);
  for (const Row& row : rows_)
    line([&](size_t i) -> const std::string& { return row.cells[i]; }, row.style);
  return out;
}

std::string Table::markdown() const {
  std::string out = "|";
  auto escaped = [](std::string text) {
    for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
    return text;
  };
  for (const Column& column : columns_) out += " " + escaped(column.header) + " |";
  out += "\n|";
  for (const Column& column : columns_) out += column.align == Align::right ? "---:|" : "---|";
  for (const Row& row : rows_) {
    out += "\n|";
    for (const std::string& cell : row.cells) out += " " + escaped(cell) + " |";
  }
  return out + "\n";
}

std::string csv_cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string Table::csv() const {
  std::string out;
  for (size_t i = 0; i < columns_.size(); ++i) out += (i ? "," : "") + csv_cell(columns_[i].header);
  for (const Row& row : rows_) {
    out += "\n";
    for (size_t i = 0; i < row.cells.size(); ++i) out += (i ? "," : "") + csv_cell(row.cells[i]);
  }
  return out + "\n";
}

}  // namespace roofcast
