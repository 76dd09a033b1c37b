// Rectangles into pixels. Blocks never lie over each other, so that all of them together write each pixel about once
// and a hundred thousand take milliseconds: no list of what is where is needed, one pass over typed arrays is enough.
// What is narrower than a pixel still takes one; where several share it the largest is seen, since it is drawn last.

const hiddenShade = 255;

function fillRectangle(pixels, width, left, right, top, bottom, colour) {
  const isNarrow = right - left < 12;
  for (let row = top; row < bottom; ++row) {
    const begin = row * width + left, end = row * width + right;
    if (isNarrow)
      for (let i = begin; i < end; ++i) pixels[i] = colour;
    else
      pixels.fill(colour, begin, end);
  }
}

/// `window`: {x0, x1, y0, y1} in the units of `left`, `right` and of addresses. `shades`: by block, an index of
/// `colours`, or hiddenShade.
function drawBlocks(pixels, width, height, window, data, left, right, shades, colours) {
  const scaleX = width / (window.x1 - window.x0), scaleY = height / (window.y1 - window.y0);
  const {x0, y0} = window, {low, high, numBlocks} = data;
  for (let i = 0; i < numBlocks; ++i) {
    const shade = shades[i];
    if (shade === hiddenShade) continue;
    const begin = (left[i] - x0) * scaleX, end = (right[i] - x0) * scaleX;
    if (begin >= width || end < 0) continue;
    const bottom = (low[i] - y0) * scaleY, top = (high[i] - y0) * scaleY;
    if (bottom >= height || top < 0) continue;
    let pixelLeft = begin <= 0 ? 0 : (begin + 0.5) | 0, pixelRight = end >= width ? width : (end + 0.5) | 0;
    let pixelBottom = bottom <= 0 ? 0 : (bottom + 0.5) | 0, pixelTop = top >= height ? height : (top + 0.5) | 0;
    // Neighbours are told apart where there is room for it.
    if (pixelRight - pixelLeft > 5 && pixelTop - pixelBottom > 3) {
      if (end < width) --pixelRight;
      if (top < height) --pixelTop;
    }
    if (pixelLeft >= width) pixelLeft = width - 1;
    if (pixelBottom >= height) pixelBottom = height - 1;
    if (pixelRight <= pixelLeft) pixelRight = pixelLeft + 1;
    if (pixelTop <= pixelBottom) pixelTop = pixelBottom + 1;
    fillRectangle(pixels, width, pixelLeft, pixelRight, height - pixelTop, height - pixelBottom, colours[shade]);
  }
}

/// What is held from the device, whether or not a block lies in it.
function drawSegments(pixels, width, height, window, segments, times, colour) {
  const scaleX = width / (window.x1 - window.x0), scaleY = height / (window.y1 - window.y0);
  const clamp = (value, most) => Math.max(0, Math.min(most, Math.round(value)));
  for (const segment of segments) {
    const left = clamp((times[segment.first] - window.x0) * scaleX, width);
    const right = clamp((times[segment.behind] - window.x0) * scaleX, width);
    const bottom = clamp((segment.low - window.y0) * scaleY, height),
          top = clamp((segment.high - window.y0) * scaleY, height);
    if (left < right && bottom < top) fillRectangle(pixels, width, left, right, height - top, height - bottom, colour);
  }
}

/// The block at a point, else the largest within so much of it; -1: none.
function blockAt(data, left, right, shades, x, y, nearX, nearY) {
  let near = -1;
  for (let i = data.numBlocks - 1; i >= 0; --i) {
    if (shades[i] === hiddenShade) continue;
    if (left[i] <= x && x < right[i] && data.low[i] <= y && y < data.high[i]) return i;
    if (
      near < 0 && left[i] - nearX <= x && x < right[i] + nearX && data.low[i] - nearY <= y && y < data.high[i] + nearY)
      near = i;
  }
  return near;
}
