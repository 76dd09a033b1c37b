// The picture of a step's memory: what is held over the step, stacked, and below it every block at its address while
// it lives. Both show the same time, the same colours and the same cursor.

const margin = {
  left: 78,
  right: 8,
  top: 6
};
const axisHeight = 34, phaseHeight = 14;
const stackHeight = 190, mapHeight = 430;
const mostLabels = 120;

const colourings = {
  category: "category",
  layer: "layer",
  phase: "phase"
};

class MemoryMapPanel {
  /// `capacity`: of the plan, drawn where it is near.
  constructor(data, capacity, label) {
    this.data = data;
    this.capacity = capacity;
    this.label = label;
    this.colouring = "category";
    this.timeMode = "op";
    this.query = "";
    this.filters = {layer: -1, phase: -1, categories: new Set()};
    this.pinned = data.peak;
    this.isPinned = false;
    this.hovered = null;
    this.selected = -1;
    this.hoveredBlock = -1;
    this.box = null;
    this.matchCount = 0;
    this.matchBytes = 0;
    this.matchBytesNow = 0;
    this.leastScale = 0;
    this.onCursor = [];
    this.onShades = [];
    this.onSelection = [];
    this.numFrames = 0;
    this.draw = beforeNextFrame(() => this.drawNow());
    this.tellCursor = beforeNextFrame(() => this.onCursor.forEach((listener) => listener(this.cursor)));
    this.view = new MapView(this.draw);
    this.makeElements();
    this.setTimes("op");
    this.listen();
    theme.listeners.push(() => this.recolour());
    new ResizeObserver(() => this.draw()).observe(this.element);
    this.recolour();
  }

  get cursor() { return this.hovered ?? this.pinned; }

  makeElements() {
    const canvas = (height, what) =>
      element("canvas", {tabindex: 0, role: "img", "aria-label": what, style: {height: `${height}px`}});
    this.stackCanvas = canvas(stackHeight, this.stackText());
    this.mapCanvas = canvas(mapHeight, this.mapText());
    this.tip = element("div", {class: "tip", hidden: true});
    this.status = element("output", {class: "search-result", "aria-live": "polite"});
    this.legend = element("div", {class: "legend", role: "group", "aria-label": "Colours; a press hides or shows"});
    this.detail = element("div", {class: "selection", "aria-live": "polite"});
    this.element = element("div", {class: "pictures"}, this.stackCanvas, this.mapCanvas, this.tip);
  }

  stackText() {
    const {data} = this;
    return `Memory over ${this.label}: ${counted(data.numMoments, "moment")}, from ${formatBytes(data.allocated[0])} ` +
      `to a peak of ${formatBytes(data.allocated[data.peak])} at ${
             data.momentText(data.peak)}. What is live there stands in the tables below.`;
  }

  mapText() {
    const {data} = this;
    return `Map of ${counted(data.numBlocks, "block")} in ${
             counted(data.rangeBytes.length, "segment")} of memory, by time and address. ` +
      "The table of buffers below holds the same: bytes, address, when each is made and released.";
  }

  setTimes(mode) {
    const {data} = this;
    this.timeMode = mode;
    this.times = data.times[mode];
    this.left = Float64Array.from(data.first, (moment) => this.times[moment]);
    this.right = Float64Array.from(data.behind, (moment) => this.times[moment]);
    this.draw();
  }

  /// What is seen, in moments or seconds and bytes from the lowest address.
  window() {
    const length = this.times[this.data.numMoments], {view} = this;
    return {x0: view.x0 * length, x1: view.x1 * length, y0: view.y0 * this.data.height, y1: view.y1 * this.data.height};
  }

  // Colours, filters and the search come together as a shade for each block.

  groupOf(block) {
    const {data} = this;
    if (this.colouring === "category") return data.category[block];
    if (this.colouring === "phase") return data.phase[block];
    return this.layerColour(data.layer[block]);
  }

  /// The same for the same layer whatever is shown; layers that follow each other differ.
  layerColour(layer) { return layer === this.data.layers.length - 1 ? 0 : 1 + (layer % (numLayerColours - 1)); }

  recolour() {
    this.palette = new Palette();
    const series = {
      category: () => this.palette.categories(),
      phase: () => this.palette.phases(),
      layer: () => this.palette.layers()
    };
    this.colours = series[this.colouring]();
    // The dim ones behind the bright ones.
    this.packed = Uint32Array.from([...this.colours.map((c) => c.packed), ...this.colours.map((c) => c.dim)]);
    this.reshade();
    this.drawLegend();
  }

  isFilteredOut(block) {
    const {filters, data} = this;
    return (filters.layer >= 0 && data.layer[block] !== filters.layer) ||
      (filters.phase >= 0 && data.phase[block] !== filters.phase) || filters.categories.has(data.category[block]);
  }

  reshade() {
    const {data} = this, matched = this.query === "" ? null : data.matches(this.query);
    this.shades = new Uint8Array(data.numBlocks);
    this.matchCount = 0;
    this.matchBytes = 0;
    this.matchBytesNow = 0;
    for (let i = 0; i < data.numBlocks; ++i) {
      if (this.isFilteredOut(i)) {
        this.shades[i] = hiddenShade;
        continue;
      }
      const isMatch = !matched || matched[i] === 1;
      this.shades[i] = this.groupOf(i) + (isMatch ? 0 : this.colours.length);
      if (!isMatch) continue;
      ++this.matchCount;
      this.matchBytes += data.bytes[i];
      if (data.isLive(i, data.peak)) this.matchBytesNow += data.bytes[i];
    }
    this.profile =
      new StackProfile(data, this.colours.length, (block) => this.groupOf(block), (block) => this.isShown(block));
    this.stackOrder = this.colouring === "category" ? data.stackOrder : this.colours.map((_, i) => i);
    const isAll = this.query === "" && this.matchCount === data.numBlocks;
    const found = `${counted(this.matchCount, "buffer")}, ${formatBytes(this.matchBytes)} in all`;
    this.status.textContent = isAll ? "" : `${found}, ${formatBytes(this.matchBytesNow)} of it at the peak`;
    this.onShades.forEach((listener) => listener());
    this.draw();
  }

  /// Neither hidden nor dim.
  isShown(block) { return this.shades[block] < this.colours.length; }

  drawLegend() {
    const {data} = this, live = data.liveAt(data.peak);
    this.legend.replaceChildren();
    if (this.colouring === "layer") {
      this.legend.append(element(
        "span", {class: "quiet"}, "Each layer has one of twelve colours: see where they lie, and hover for names."));
      return;
    }
    const isCategory = this.colouring === "category";
    const used = new Set(isCategory ? data.category : data.phase);
    const names = isCategory ? data.categories : data.phases;
    for (const group of isCategory ? data.stackOrder : names.map((_, i) => i)) {
      if (!used.has(group)) continue;
      const swatch = element("span", {class: "swatch", style: {background: this.colours[group].css}});
      if (!isCategory) {
        this.legend.append(element("span", {class: "key"}, swatch, names[group]));
        continue;
      }
      const isOff = this.filters.categories.has(group);
      this.legend.append(element(
        "button", {
          type: "button",
          class: "key",
          "aria-pressed": String(!isOff),
          "data-category": names[group],
          on: {click: () => this.toggleCategory(group)}
        },
        swatch, names[group], " ", element("span", {class: "quiet"}, formatBytes(live.byCategory[group]))));
    }
  }

  toggleCategory(group) {
    const {categories} = this.filters;
    if (!categories.delete(group)) categories.add(group);
    this.reshade();
    this.drawLegend();
    const name = this.data.categories[group];
    [...this.legend.children].find((key) => key.dataset.category === name)?.focus();
  }

  // Drawing.

  /// The canvas with as many pixels as the screen has, and the part of it that shows the data, in CSS pixels.
  prepare(canvas, bottom) {
    const ratio = Math.min(2, devicePixelRatio || 1);
    const width = Math.max(200, canvas.clientWidth), height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const context = canvas.getContext("2d", {alpha: false});
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const [red, green, blue] = this.palette.background;
    context.fillStyle = `rgb(${red} ${green} ${blue})`;
    context.fillRect(0, 0, width, height);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    const plot = {
      left: margin.left,
      top: margin.top,
      width: width - margin.left - margin.right,
      height: height - margin.top - bottom
    };
    return {context, plot, ratio};
  }

  /// The pixels of a canvas's plot, which `draw` fills where anything but marks upon them is to change.
  pixels(canvas, plot, ratio, window, draw) {
    const width = Math.max(1, Math.round(plot.width * ratio)), height = Math.max(1, Math.round(plot.height * ratio));
    const {x0, x1, y0, y1} = window, last = canvas.drawn;
    if (
      last?.width === width && last.height === height && last.shades === this.shades && last.times === this.times &&
      last.palette === this.palette && last.x0 === x0 && last.x1 === x1 && last.y0 === y0 && last.y1 === y1)
      return last;
    const isSame = last?.width === width && last.height === height;
    const image = isSame ? last.image : new ImageData(width, height),
          words = isSame ? last.words : new Uint32Array(image.data.buffer);
    words.fill(packedColour(this.palette.background));
    canvas.drawn =
      {image, words, width, height, shades: this.shades, times: this.times, palette: this.palette, x0, x1, y0, y1};
    canvas.drawn.result = draw(canvas.drawn);
    return canvas.drawn;
  }

  drawNow() {
    if (this.element.clientWidth === 0) return;
    ++this.numFrames;
    this.drawStackCanvas();
    this.drawMapCanvas();
  }

  highestBytes() { return Math.max(this.data.allocated[this.data.peak], this.data.mostReserved); }

  drawStackCanvas() {
    const {data, palette} = this, {context, plot, ratio} = this.prepare(this.stackCanvas, 8);
    const window = this.window(), most = Math.max(this.highestBytes(), this.leastScale);
    const showsCapacity = this.capacity > 0 && this.capacity < 1.6 * most;
    this.mostBytes = Math.max(1, (showsCapacity ? Math.max(most, this.capacity) : most) * 1.06);
    const pixels = this.pixels(
      this.stackCanvas, plot, ratio, window,
      ({words, width, height}) => drawStack(
        words, width, height, window, this.profile, this.times, this.stackOrder, this.packed, this.mostBytes));
    const shown = pixels.result;
    context.putImageData(pixels.image, plot.left * ratio, plot.top * ratio);
    const toY = (bytes) => plot.top + plot.height * (1 - bytes / this.mostBytes);
    this.drawByteAxis(context, plot, toY);
    context.strokeStyle = palette.ink;
    context.lineWidth = 1;
    context.beginPath();
    for (let i = 0; i < shown.length; i += ratio) {
      const y = toY(data.reserved[shown[Math.floor(i)]]);
      context.lineTo(plot.left + i / ratio, y);
      context.lineTo(plot.left + (i + ratio) / ratio, y);
    }
    context.stroke();
    this.writeInPlot(
      context, plot, "reserved", plot.left + plot.width - 4, toY(data.reserved[shown[shown.length - 1]]) + 9, "right");
    if (showsCapacity) {
      context.strokeStyle = palette.alarm;
      context.setLineDash([6, 4]);
      context.beginPath();
      context.moveTo(plot.left, toY(this.capacity));
      context.lineTo(plot.left + plot.width, toY(this.capacity));
      context.stroke();
      context.setLineDash([]);
      this.writeInPlot(
        context, plot, `capacity ${formatBytes(this.capacity)}`, plot.left + 6, toY(this.capacity) - 7, "left",
        palette.alarm);
    }
    this.drawMoments(context, plot, window, true);
  }

  drawByteAxis(context, plot, toY) {
    const step = 2 ** Math.ceil(Math.log2(this.mostBytes / 5));
    context.textAlign = "right";
    for (let bytes = 0; bytes < this.mostBytes; bytes += step) {
      const y = Math.round(toY(bytes)) + 0.5;
      context.fillStyle = this.palette.quiet;
      context.fillText(formatBytes(bytes), plot.left - 6, Math.max(plot.top + 5, y));
      context.strokeStyle = this.palette.grid;
      context.beginPath();
      context.moveTo(plot.left - 4, y);
      context.lineTo(plot.left, y);
      context.stroke();
    }
  }

  /// A text over what is drawn, readable on any colour.
  writeInPlot(context, plot, text, x, y, align, colour = this.palette.ink) {
    const [red, green, blue] = this.palette.background, width = context.measureText(text).width + 6;
    const begin = align === "right" ? x - width : align === "center" ? x - width / 2 : x;
    const left = Math.max(plot.left, Math.min(plot.left + plot.width - width, begin));
    const middle = Math.max(plot.top + 7, y);
    context.fillStyle = `rgb(${red} ${green} ${blue} / 0.82)`;
    context.fillRect(left, middle - 7, width, 14);
    context.textAlign = "left";
    context.fillStyle = colour;
    context.fillText(text, left + 3, middle);
  }

  drawMapCanvas() {
    const {data, palette} = this, {context, plot, ratio} = this.prepare(this.mapCanvas, axisHeight);
    const window = this.window();
    const pixels = this.pixels(this.mapCanvas, plot, ratio, window, ({words, width, height}) => {
      drawSegments(words, width, height, window, data.segments, this.times, packedColour(palette.cached));
      drawBlocks(words, width, height, window, data, this.left, this.right, this.shades, this.packed);
    });
    context.putImageData(pixels.image, plot.left * ratio, plot.top * ratio);
    const scaleX = plot.width / (window.x1 - window.x0), scaleY = plot.height / (window.y1 - window.y0);
    const toX = (time) => plot.left + (time - window.x0) * scaleX;
    const toY = (place) => plot.top + plot.height - (place - window.y0) * scaleY;
    this.drawRangeAxis(context, plot, toY);
    this.drawNames(context, plot, window, toX, toY);
    this.drawTimeAxis(context, plot, window, toX);
    this.drawMoments(context, plot, window, false);
    for (const [block, colour, width] of [[this.hoveredBlock, palette.ink, 1], [this.selected, palette.accent, 2]])
      if (block >= 0) this.outline(context, plot, toX, toY, block, colour, width);
    if (this.box) {
      const [from, to] = this.box;
      context.strokeStyle = palette.accent;
      context.strokeRect(
        plot.left + from[0] * plot.width, plot.top + (1 - from[1]) * plot.height, (to[0] - from[0]) * plot.width,
        (from[1] - to[1]) * plot.height);
    }
    if (!this.view.isWhole) this.drawOverview(context, plot, ratio);
  }

  /// The whole in small, with a frame around what is seen.
  drawOverview(context, plot, ratio) {
    const width = 150, height = 70, left = plot.left + plot.width - width - 8, top = plot.top + 8;
    const length = this.times[this.data.numMoments], key = `${this.timeMode} ${ratio}`;
    if (this.overview?.shades !== this.shades || this.overview.key !== key) {
      const image = new ImageData(width * ratio, height * ratio), words = new Uint32Array(image.data.buffer);
      const whole = {x0: 0, x1: length, y0: 0, y1: this.data.height};
      words.fill(packedColour(this.palette.background));
      drawSegments(
        words, image.width, image.height, whole, this.data.segments, this.times, packedColour(this.palette.cached));
      drawBlocks(words, image.width, image.height, whole, this.data, this.left, this.right, this.shades, this.packed);
      this.overview = {image, key, shades: this.shades};
    }
    context.putImageData(this.overview.image, Math.round(left * ratio), Math.round(top * ratio));
    context.lineWidth = 1;
    context.strokeStyle = this.palette.frame;
    context.strokeRect(left - 0.5, top - 0.5, width + 1, height + 1);
    context.strokeStyle = this.palette.accent;
    context.lineWidth = 2;
    const {view} = this;
    context.strokeRect(
      left + view.x0 * width, top + (1 - view.y1) * height, Math.max(2, (view.x1 - view.x0) * width),
      Math.max(2, (view.y1 - view.y0) * height));
    context.lineWidth = 1;
  }

  outline(context, plot, toX, toY, block, colour, width) {
    const left = Math.max(plot.left, toX(this.left[block])),
          right = Math.min(plot.left + plot.width, toX(this.right[block]));
    const top = Math.max(plot.top, toY(this.data.high[block])),
          bottom = Math.min(plot.top + plot.height, toY(this.data.low[block]));
    if (right < left || bottom < top) return;
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.strokeRect(left - 0.5, top - 0.5, Math.max(2, right - left), Math.max(2, bottom - top));
    context.lineWidth = 1;
  }

  /// Sizes of segments at their middles, as far as there is room, and lines between them.
  drawRangeAxis(context, plot, toY) {
    const {data} = this;
    let free = Infinity;
    context.textAlign = "right";
    for (let i = 0; i < data.rangeBytes.length; ++i) {
      const bottom = Math.min(plot.top + plot.height, toY(data.rangeBegin[i]));
      const top = Math.max(plot.top, toY(data.rangeBegin[i] + data.rangeBytes[i]));
      if (bottom < plot.top || top > plot.top + plot.height) continue;
      context.strokeStyle = this.palette.frame;
      context.beginPath();
      context.moveTo(plot.left - 3.5, top + 1);
      context.lineTo(plot.left - 3.5, bottom - 1);
      context.stroke();
      const middle = (top + bottom) / 2;
      if (middle > free - 13 || bottom - top < 5) continue;
      context.fillStyle = this.palette.quiet;
      context.fillText(formatBytes(data.rangeBytes[i]), plot.left - 8, middle);
      free = middle;
    }
  }

  drawNames(context, plot, window, toX, toY) {
    const {data} = this;
    const lowest = 13 / (plot.height / (window.y1 - window.y0));
    let count = 0;
    context.textAlign = "left";
    // The largest stand last.
    for (let i = data.numBlocks - 1; i >= 0 && data.bytes[i] >= lowest && count < mostLabels; --i) {
      if (!this.isShown(i) || this.right[i] < window.x0 || this.left[i] > window.x1) continue;
      const left = Math.max(plot.left, toX(this.left[i])), right = Math.min(plot.left + plot.width, toX(this.right[i]));
      if (right - left < 46) continue;
      const top = Math.max(plot.top, toY(data.high[i])), bottom = Math.min(plot.top + plot.height, toY(data.low[i]));
      if (bottom - top < 13) continue;
      ++count;
      const room = Math.floor((right - left - 8) / 5.9);
      context.fillStyle = this.colours[this.shades[i]].text;
      context.fillText(shortened(data.name(i), Math.max(4, room)), left + 4, (top + bottom) / 2);
    }
  }

  /// Phases as bands with their names, and below them op numbers or times.
  drawTimeAxis(context, plot, window, toX) {
    const {data, times} = this, top = plot.top + plot.height + 2, phases = this.palette.phases();
    for (let begin = momentAt(times, window.x0); begin < data.numMoments && times[begin] < window.x1;) {
      let end = begin + 1;
      while (end < data.numMoments && data.momentPhase[end] === data.momentPhase[begin]) ++end;
      const left = Math.max(plot.left, toX(times[begin])), right = Math.min(plot.left + plot.width, toX(times[end]));
      const colour = phases[data.momentPhase[begin]], name = data.phases[data.momentPhase[begin]];
      context.fillStyle = colour.css;
      context.fillRect(left, top, Math.max(0.5, right - left - (right - left > 3 ? 1 : 0)), phaseHeight);
      context.textAlign = "center";
      context.fillStyle = colour.text;
      if (right - left > context.measureText(name).width + 8)
        context.fillText(name, (left + right) / 2, top + phaseHeight / 2 + 0.5);
      begin = end;
    }
    // Of ops each number stands behind its op, of which there may be fewer than moments.
    const isOp = this.timeMode === "op",
          opsUntil = (time) => data.opsBefore[Math.min(data.numMoments, Math.max(0, Math.floor(time)))];
    const first = isOp ? opsUntil(window.x0) : window.x0, last = isOp ? opsUntil(window.x1) : window.x1;
    const rough = (isOp ? Math.max(1, last - first) : last - first) / Math.max(2, plot.width / 110);
    const power = 10 ** Math.floor(Math.log10(rough)),
          step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
    const tick = Math.max(step, isOp ? 1 : 0);
    context.fillStyle = this.palette.quiet;
    for (let i = Math.ceil(first / tick); i * tick <= last; ++i) {
      const time = isOp ? data.behindOp[i * tick] : i * tick;
      if (time < window.x0) continue;
      const x = toX(time), text = isOp ? formatCount(i * tick) : formatSeconds(i * tick);
      context.textAlign = x > plot.left + plot.width - 20 ? "right" : "center";
      context.fillText(text, Math.min(x, plot.left + plot.width), top + phaseHeight + 9);
    }
    context.textAlign = "right";
    context.fillText(isOp ? "op" : "time", plot.left - 8, top + phaseHeight + 9);
    context.fillText("phase", plot.left - 8, top + phaseHeight / 2);
  }

  /// Upright lines at the peak and at the cursor.
  drawMoments(context, plot, window, isStack) {
    const {data, times} = this, scaleX = plot.width / (window.x1 - window.x0);
    const line = (moment, colour, dash, text) => {
      const x = plot.left + ((times[moment] + times[moment + 1]) / 2 - window.x0) * scaleX;
      if (x < plot.left - 1 || x > plot.left + plot.width + 1) return;
      context.strokeStyle = colour;
      context.setLineDash(dash);
      context.beginPath();
      context.moveTo(x, plot.top);
      context.lineTo(x, plot.top + plot.height);
      context.stroke();
      context.setLineDash([]);
      if (text) this.writeInPlot(context, plot, text, x, plot.top + 7, "center");
    };
    line(data.peak, this.palette.ink, [3, 3], isStack ? `peak ${formatBytes(data.allocated[data.peak])}` : "");
    if (this.cursor !== data.peak || this.isPinned) line(this.cursor, this.palette.accent, [], "");
  }
}
