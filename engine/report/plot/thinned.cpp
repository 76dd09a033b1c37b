#include <algorithm>
#include <cmath>

#include "engine/report/plot/plot_picture.h"

namespace trainer {

std::vector<PlotPoint> thinned(const std::vector<PlotPoint>& points, double begin, double end, std::size_t buckets) {
  constexpr std::size_t most_of_bucket = 4;
  if (points.size() <= most_of_bucket * buckets || !(end > begin)) return points;
  const auto bucket_of = [&](const PlotPoint& point) {
    return std::floor((point.x - begin) / (end - begin) * static_cast<double>(buckets));
  };
  std::vector<PlotPoint> kept;
  for (std::size_t first = 0; first < points.size();) {
    std::size_t next = first;
    std::vector<std::size_t> places;
    std::size_t lowest = points.size(), highest = points.size(), gap = points.size(), last = points.size();
    for (; next < points.size() && (next == first || bucket_of(points[next]) == bucket_of(points[first])); ++next) {
      const double y = points[next].y;
      if (!std::isfinite(y)) {
        gap = next;
        continue;
      }
      if (last == points.size()) places.push_back(next);
      if (lowest == points.size() || y < points[lowest].y) lowest = next;
      if (highest == points.size() || y > points[highest].y) highest = next;
      last = next;
    }
    for (const std::size_t place : {lowest, highest, gap, last})
      if (place < points.size()) places.push_back(place);
    std::sort(places.begin(), places.end());
    places.erase(std::unique(places.begin(), places.end()), places.end());
    for (const std::size_t place : places) kept.push_back(points[place]);
    first = next;
  }
  return kept;
}

}  // namespace trainer
