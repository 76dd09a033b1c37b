#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/config/text/utf8_text.h"
#include "engine/report/plot/plot_picture.h"
#include "engine/report/text/dot_canvas.h"

namespace trainer {
namespace {

constexpr std::size_t most_gutter = 6;
constexpr std::array<Ink, 6> curve_inks = {Ink::cyan, Ink::yellow, Ink::green, Ink::magenta, Ink::blue, Ink::red};

Ink ink_of(std::size_t colour) { return curve_inks[colour % curve_inks.size()]; }

/// Entries of a legend one behind the other, in as many lines as they need.
class LegendLines {
 public:
  LegendLines(std::size_t width, std::size_t indent) : width_(width), indent_(indent) {}

  void add(const Style& style, const std::string& sample, Ink ink, const std::string& label) {
    const std::string text = cut_to_width(printable(label), width_ - indent_ - display_width(sample) - 1);
    const std::size_t needed = display_width(sample) + 1 + display_width(text);
    if (column_ > 0 && column_ + gap + needed > width_) {
      text_ += '\n';
      column_ = 0;
    }
    text_.append(column_ == 0 ? indent_ : gap, ' ');
    column_ += needed + (column_ == 0 ? indent_ : gap);
    text_ += paint(style, ink, sample) + ' ' + text;
  }
  /// Behind what was added.
  void add_title(const Style& style, const std::string& title) {
    text_ = std::string(indent_, ' ') + paint(style, Ink::bold, title);
    column_ = indent_ + display_width(title);
  }
  std::string text() const { return text_.empty() ? "" : text_ + '\n'; }

 private:
  static constexpr std::size_t gap = 2;
  std::size_t width_, indent_, column_ = 0;
  std::string text_;
};

/// Draws a panel's curves into letters.
class PanelCanvas {
 public:
  PanelCanvas(const CurvePicture& picture, const CurvePanel& panel, std::size_t columns)
      : picture_(picture), panel_(panel), columns_(columns), canvas_(columns, panel.rows) {}

  void draw() {
    for (const PlotLevel& level : panel_.levels) draw_level(level.value);
    for (const PlotCurve& curve : panel_.curves)
      if (curve.form != CurveForm::marks && curve.form != CurveForm::crosses) draw_curve(curve);
    for (const PlotCurve& curve : panel_.curves)
      if (curve.form == CurveForm::marks || curve.form == CurveForm::crosses) draw_marks(curve);
    for (const PlotMark& mark : picture_.marks) draw_upright(mark.x);
  }

  std::string row(std::size_t index, const Style& style) const { return canvas_.row(index, style); }

  /// Nothing where a number has no place on the axis.
  std::optional<std::size_t> row_of(double value) const {
    const auto y = dot_y(value);
    return y ? std::optional(*y / dots_down) : std::nullopt;
  }
  std::optional<std::size_t> column_of(double x) const {
    const auto dot = dot_x(x);
    return dot ? std::optional(*dot / dots_across) : std::nullopt;
  }

 private:
  std::optional<std::size_t> dot_x(double x) const {
    const std::optional<double> share = picture_.share_of(x);
    if (!share) return std::nullopt;
    return static_cast<std::size_t>(std::lround(*share * static_cast<double>(columns_ * dots_across - 1)));
  }
  std::optional<std::size_t> dot_y(double value) const {
    const std::optional<double> share = panel_.axis.share_of(value);
    if (!share) return std::nullopt;
    return static_cast<std::size_t>(std::lround((1 - *share) * static_cast<double>(panel_.rows * dots_down - 1)));
  }

  void draw_level(double value) {
    constexpr std::size_t apart = 4;
    if (const auto y = dot_y(value))
      for (std::size_t x = 0; x < columns_ * dots_across; x += apart) canvas_.set(x, *y, Ink::dim);
  }

  static bool is_drawn_at(CurveForm form, std::size_t x) {
    constexpr std::size_t dash = 3;
    if (form == CurveForm::dashed) return x / dash % 2 == 0;
    return form != CurveForm::dotted || x % dash == 0;
  }

  void draw_curve(const PlotCurve& curve) {
    std::optional<std::pair<std::size_t, std::size_t>> before;
    std::size_t num_finite = 0;
    for (const PlotPoint& point : curve.points) {
      const auto x = dot_x(point.x), y = dot_y(point.y);
      if (!std::isfinite(point.y) || !x || !y) {
        before.reset();
        continue;
      }
      const std::pair<std::size_t, std::size_t> dot = {*x, *y};
      draw_line(before.value_or(dot), dot, curve);
      before = dot;
      ++num_finite;
    }
    // A single dot is not seen.
    if (num_finite == 1 && before)
      canvas_.write(before->first / dots_across, before->second / dots_down, "•", ink_of(curve.colour));
  }

  void draw_line(std::pair<std::size_t, std::size_t> from, std::pair<std::size_t, std::size_t> to,
                 const PlotCurve& curve) {
    const auto across = static_cast<double>(to.first) - static_cast<double>(from.first);
    const auto down = static_cast<double>(to.second) - static_cast<double>(from.second);
    const double steps = std::max({std::abs(across), std::abs(down), 1.0});
    for (double step = 0; step <= steps; ++step) {
      const auto x = static_cast<std::size_t>(std::lround(static_cast<double>(from.first) + across * step / steps));
      const auto y = static_cast<std::size_t>(std::lround(static_cast<double>(from.second) + down * step / steps));
      if (is_drawn_at(curve.form, x)) canvas_.set(x, y, ink_of(curve.colour));
    }
  }

  void draw_marks(const PlotCurve& curve) {
    const bool is_failure = curve.form == CurveForm::crosses;
    for (const PlotPoint& point : curve.points) {
      const auto column = column_of(point.x), row = row_of(point.y);
      if (std::isfinite(point.y) && column && row)
        canvas_.write(*column, *row, is_failure ? "×" : curve.letter, is_failure ? Ink::red : ink_of(curve.colour));
    }
  }

  void draw_upright(double x) {
    const auto column = column_of(x);
    if (!column || *column == 0) return;
    for (std::size_t row = 0; row < panel_.rows; ++row)
      if (canvas_.is_empty(*column, row)) canvas_.write(*column, row, "┊", Ink::dim);
  }

  const CurvePicture& picture_;
  const CurvePanel& panel_;
  std::size_t columns_;
  DotCanvas canvas_;
};

class PictureText {
 public:
  PictureText(const CurvePicture& picture, const Style& style) : picture_(picture), style_(style) {
    width_ = static_cast<std::size_t>(std::max(style.width, 60));
    margin_ = display_width(picture.x_title) + 1;
    for (const CurvePanel& panel : picture.panels)
      for (const AxisTick& tick : panel.axis.ticks) margin_ = std::max(margin_, display_width(tick.label) + 1);
    columns_ = width_ - margin_ - 1 - 1 - most_gutter;
  }

  std::string text() const {
    std::string text = paint(style_, Ink::bold, cut_to_width(printable(picture_.title), width_)) + '\n';
    LegendLines owners(width_, 2);
    for (const CurvePicture::Owner& owner : picture_.owners)
      owners.add(style_, owner.letter, ink_of(owner.colour), owner.label);
    text += owners.text();
    for (const CurvePanel& panel : picture_.panels) text += panel_text(panel);
    return text;
  }

 private:
  std::string panel_text(const CurvePanel& panel) const {
    PanelCanvas canvas(picture_, panel, columns_);
    canvas.draw();
    std::string text = '\n' + legend_of(panel) + labels_of_marks(canvas);
    const std::vector<std::string> ticks = tick_labels(panel);
    const std::vector<std::string> letters = end_letters(panel, canvas);
    for (std::size_t row = 0; row < panel.rows; ++row) {
      std::string line =
          pad_left(ticks[row], margin_ - 1) + (ticks[row].empty() ? " │" : " ┤") + canvas.row(row, style_);
      if (!letters[row].empty()) line = pad_right(line, margin_ + 1 + columns_ + 1) + letters[row];
      text += line + '\n';
    }
    return text + x_axis();
  }

  /// The title, and what the letters at the ends of its curves stand for.
  std::string legend_of(const CurvePanel& panel) const {
    LegendLines lines(width_, margin_ + 1);
    lines.add_title(style_, panel.title);
    std::vector<std::string> seen;
    for (const PlotCurve& curve : panel.curves) {
      if (curve.figure.empty() || std::find(seen.begin(), seen.end(), curve.figure) != seen.end()) continue;
      seen.push_back(curve.figure);
      lines.add(style_, sample_of(curve), curve.form == CurveForm::crosses ? Ink::red : ink_of(curve.colour),
                curve.figure);
    }
    for (const PlotLevel& level : panel.levels) lines.add(style_, level.letter, Ink::dim, level.label);
    if (!panel.remark.empty()) lines.add(style_, "·", Ink::dim, panel.remark);
    return lines.text();
  }

  /// Where curves have owners their letters are those, and what they show is told by a line.
  std::string sample_of(const PlotCurve& curve) const {
    if (curve.form == CurveForm::crosses) return "×";
    if (picture_.owners.empty()) return curve.letter;
    if (curve.form == CurveForm::marks) return "a, b, …";
    return curve.form == CurveForm::solid ? "───" : curve.form == CurveForm::dashed ? "╶─╴" : "┄┄┄";
  }

  std::string labels_of_marks(const PanelCanvas& canvas) const {
    std::string line;
    for (const PlotMark& mark : picture_.marks) {
      const auto column = canvas.column_of(mark.x);
      if (!column) continue;
      const std::size_t at = margin_ + 1 + *column;
      const std::size_t free = display_width(line) + (line.empty() ? 0 : 1);
      if (at < free || at + 4 > width_) continue;
      line = pad_right(line, at) + cut_to_width(printable(mark.label), std::min<std::size_t>(16, width_ - at));
    }
    return line.empty() ? "" : paint(style_, Ink::dim, line) + '\n';
  }

  static std::vector<std::string> tick_labels(const CurvePanel& panel) {
    std::vector<std::string> labels(panel.rows);
    for (const AxisTick& tick : panel.axis.ticks) {
      const double depth = (1 - tick.at) * static_cast<double>(panel.rows * dots_down - 1);
      std::string& label = labels[static_cast<std::size_t>(std::lround(depth)) / dots_down];
      if (label.empty()) label = tick.label;
    }
    return labels;
  }

  /// For each row the letters of the curves that end in it, and of the levels.
  std::vector<std::string> end_letters(const CurvePanel& panel, const PanelCanvas& canvas) const {
    std::vector<std::string> rows(panel.rows);
    std::vector<std::size_t> counts(panel.rows);
    std::vector<std::string> plain(panel.rows);
    const auto add = [&](std::optional<std::size_t> row, const std::string& letter, Ink ink) {
      if (!row || letter.empty() || plain[*row].find(letter) != std::string::npos) return;
      plain[*row] += letter;
      if (++counts[*row] > most_gutter) return;
      rows[*row] += counts[*row] == most_gutter ? "…" : paint(style_, ink, letter);
    };
    for (const PlotCurve& curve : panel.curves) {
      if (curve.form == CurveForm::marks || curve.form == CurveForm::crosses) continue;
      const auto last = std::find_if(curve.points.rbegin(), curve.points.rend(),
                                     [](const PlotPoint& point) { return std::isfinite(point.y); });
      if (last != curve.points.rend()) add(canvas.row_of(last->y), curve.letter, ink_of(curve.colour));
    }
    for (const PlotLevel& level : panel.levels) add(canvas.row_of(level.value), level.letter, Ink::dim);
    return rows;
  }

  std::string x_axis() const {
    std::vector<std::string> line(columns_, "─");
    std::string labels = pad_left(picture_.x_title, margin_ - 1) + "  ";
    for (const AxisTick& tick : picture_.x_ticks) {
      if (!(tick.at >= 0 && tick.at <= 1)) continue;
      const auto column = static_cast<std::size_t>(std::lround(tick.at * static_cast<double>(columns_ - 1)));
      const std::string label = cut_to_width(printable(tick.label), 24);
      const std::size_t half = (display_width(label) - 1) / 2, at = margin_ + 1 + column;
      const std::size_t begin = at - std::min(at - margin_, half);
      line[column] = "┬";
      // Labels that would run into each other are left out.
      if (begin < display_width(labels) || begin + display_width(label) > width_) continue;
      labels = pad_right(labels, begin) + label + ' ';
    }
    labels.erase(labels.find_last_not_of(' ') + 1);
    std::string axis = std::string(margin_, ' ') + "└";
    for (const std::string& part : line) axis += part;
    return axis + '\n' + labels + '\n';
  }

  const CurvePicture& picture_;
  const Style& style_;
  std::size_t width_ = 0, margin_ = 0, columns_ = 0;
};

}  // namespace

std::string picture_text(const CurvePicture& picture, const Style& style) { return PictureText(picture, style).text(); }

}  // namespace trainer
