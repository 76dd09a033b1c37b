// Memory over the step as a stack of groups, each pixel column by its highest moment, so that no peak is lost.

/// Bytes by moment of each group, one list behind the other.
class StackProfile {
  /// `group`: by block, below numGroups; only blocks that `isCounted`.
  constructor(data, numGroups, group, isCounted) {
    const count = data.numMoments;
    this.numGroups = numGroups;
    this.numMoments = count;
    this.bytes = new Float64Array(numGroups * count);
    const change = new Float64Array(numGroups * (count + 1));
    for (let i = 0; i < data.numBlocks; ++i) {
      if (!isCounted(i)) continue;
      const row = group(i) * (count + 1);
      change[row + data.first[i]] += data.bytes[i];
      change[row + data.behind[i]] -= data.bytes[i];
    }
    this.total = new Float64Array(count);
    for (let g = 0; g < numGroups; ++g) {
      let sum = 0;
      for (let moment = 0; moment < count; ++moment) {
        sum += change[g * (count + 1) + moment];
        this.bytes[g * count + moment] = sum;
        this.total[moment] += sum;
      }
    }
  }

  at(group, moment) { return this.bytes[group * this.numMoments + moment]; }
}

/// The moment at a time: the last that has begun.
function momentAt(times, time) {
  let low = 0, high = times.length - 2;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (times[middle] <= time)
      low = middle;
    else
      high = middle - 1;
  }
  return Math.max(0, low);
}

/// Draws the profile from the lowest group of `order` to the highest. Returns by column the moment that it shows.
function drawStack(pixels, width, height, window, profile, times, order, colours, mostBytes) {
  const shown = new Int32Array(width);
  const step = (window.x1 - window.x0) / width, scale = height / mostBytes;
  let begin = momentAt(times, window.x0);
  for (let column = 0; column < width; ++column) {
    const time = window.x0 + (column + 1) * step;
    let highest = begin, moment = begin;
    while (moment + 1 < profile.numMoments && times[moment + 1] < time) {
      ++moment;
      if (profile.total[moment] > profile.total[highest]) highest = moment;
    }
    begin = moment;
    // The next column begins inside of this moment, or with the next one.
    if (moment + 1 < profile.numMoments && times[moment + 1] <= time) begin = moment + 1;
    shown[column] = highest;
    let sum = 0, from = height;
    for (const group of order) {
      sum += profile.at(group, highest);
      const to = Math.max(0, height - Math.round(sum * scale));
      const colour = colours[group];
      for (let row = to; row < from; ++row) pixels[row * width + column] = colour;
      from = Math.min(from, to);
    }
  }
  return shown;
}
