// What one does with a map: hover, click, keys, and the controls above it.

Object.assign(MemoryMapPanel.prototype, {
  listen() {
    for (const canvas of [this.stackCanvas, this.mapCanvas]) {
      const isMap = canvas === this.mapCanvas;
      const plot = () => ({
        left: margin.left,
        top: margin.top,
        width: Math.max(200, canvas.clientWidth) - margin.left - margin.right,
        height: canvas.clientHeight - margin.top - (isMap ? axisHeight : 8)
      });
      listenToPointers(canvas, this.view, plot, isMap, {
        hover: (x, y) => this.hover(x, y, isMap, plot()),
        leave: () => this.leave(),
        click: (x, y) => this.click(x, y, isMap, plot()),
        box: (from, to) => {
          this.box = from ? [from, to] : null;
          this.draw();
        },
      });
      canvas.addEventListener("keydown", (event) => this.key(event));
    }
  },

  momentAtShare(x) {
    const window = this.window();
    return momentAt(this.times, window.x0 + Math.min(1, Math.max(0, x)) * (window.x1 - window.x0));
  },

  blockAtShare(x, y, plot) {
    const window = this.window(), width = window.x1 - window.x0, height = window.y1 - window.y0;
    return blockAt(
      this.data, this.left, this.right, this.shades, window.x0 + x * width, window.y0 + y * height,
      (2 * width) / plot.width, (2 * height) / plot.height);
  },

  hover(x, y, isMap, plot) {
    if (x < 0 || x > 1 || y < 0 || y > 1) return this.leave();
    this.hovered = this.momentAtShare(x);
    this.hoveredBlock = isMap ? this.blockAtShare(x, y, plot) : -1;
    this.tip.replaceChildren(
      ...(this.hoveredBlock >= 0 ? this.blockFacts(this.hoveredBlock, true) : this.momentFacts(this.hovered)));
    this.tip.hidden = false;
    const canvas = isMap ? this.mapCanvas : this.stackCanvas;
    const left = margin.left + x * plot.width, top = canvas.offsetTop + margin.top + (1 - y) * plot.height;
    const isRight = left > this.element.clientWidth / 2;
    this.tip.style.left = isRight ? "" : `${left + 16}px`;
    this.tip.style.right = isRight ? `${this.element.clientWidth - left + 16}px` : "";
    this.tip.style.top = `${Math.max(0, Math.min(top + 12, this.element.clientHeight - this.tip.offsetHeight))}px`;
    this.tellCursor();
    this.draw();
  },

  leave() {
    if (this.hovered === null) return;
    this.hovered = null;
    this.hoveredBlock = -1;
    this.tip.hidden = true;
    this.tellCursor();
    this.draw();
  },

  click(x, y, isMap, plot) {
    this.pin(this.momentAtShare(x));
    if (isMap) this.select(this.blockAtShare(x, y, plot), false);
  },

  pin(moment) {
    this.pinned = Math.max(0, Math.min(this.data.numMoments - 1, moment));
    this.isPinned = true;
    this.tellCursor();
    this.draw();
  },

  /// `shows`: it is brought into the picture where it is outside.
  select(block, shows) {
    this.selected = block;
    this.detail.replaceChildren(
      ...(block >= 0 ? [element("h3", {}, "Selected"), ...this.blockFacts(block, false)] : []));
    if (block >= 0 && shows) this.bringIntoView(block);
    this.onSelection.forEach((listener) => listener(block));
    this.draw();
  },

  bringIntoView(block) {
    const {view, data} = this, length = this.times[data.numMoments] || 1;
    const left = this.left[block] / length, right = this.right[block] / length;
    const low = data.low[block] / data.height, high = data.high[block] / data.height;
    const isSeen = left < view.x1 && right > view.x0 && low < view.y1 && high > view.y0;
    const room = high - low < (view.y1 - view.y0) / 100;
    if (isSeen && !room) return;
    const height = Math.min(view.y1 - view.y0, Math.max((high - low) * 12, smallestShare));
    const width = Math.max(view.x1 - view.x0, right - left), x = (left + right) / 2, y = (low + high) / 2;
    view.set(x - width / 2, x + width / 2, y - height / 2, y + height / 2);
  },

  blockFacts(block, isShort) {
    const {data} = this;
    return [
      element(
        "p", {class: "block-name"},
        element("span", {class: "swatch", style: {background: this.colours[this.groupOf(block)].css}}),
        named(data.name(block), 70)),
      facts([
        ["layer", named(data.layerName(block), 60)],
        ["category", data.categories[data.category[block]]],
        ["bytes", `${formatBytes(data.requested(block))} requested, ${formatBytes(data.bytes[block])} block`],
        isShort ? ["", null] :
                  ["exactly", `${formatCount(data.requested(block))} and ${formatCount(data.bytes[block])} bytes`],
        isShort ? ["", null] : ["tensor", visible(data.type(block))],
        ["address", data.place(block)],
        ["made", data.bornText(block)],
        ["released", data.releasedText(block)],
      ]),
    ];
  },

  momentFacts(moment) {
    const {data} = this;
    return [
      element("p", {class: "block-name"}, data.momentText(moment)),
      facts([
        ["layer", named(data.layers[data.momentLayer[moment]], 60)],
        ["allocated", formatBytes(data.allocated[moment])],
        ["reserved", formatBytes(data.reserved[moment])],
        data.momentSeconds[moment] > 0 ? ["predicted", formatSeconds(data.momentSeconds[moment])] : ["", null],
      ]),
    ];
  },

  /// To the next block that the search found, in the order in which they are made.
  nextMatch(direction) {
    const {data} = this;
    this.order ??= Int32Array.from({length: data.numBlocks}, (_, i) => i)
                     .sort((a, b) => data.first[a] - data.first[b] || data.low[a] - data.low[b]);
    const at = this.order.indexOf(this.selected), count = data.numBlocks;
    for (let i = 1; i <= count; ++i) {
      const block = this.order[(((at < 0 && direction < 0 ? 0 : at) + direction * i) % count + count) % count];
      if (!this.isShown(block)) continue;
      this.select(block, true);
      return this.pin(data.first[block]);
    }
  },

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const {view} = this, step = 0.15;
    const actions = {
      ArrowLeft: () => (event.shiftKey ? this.pin(this.pinned - 1) : view.pan(-step, 0)),
      ArrowRight: () => (event.shiftKey ? this.pin(this.pinned + 1) : view.pan(step, 0)),
      ArrowUp: () => view.pan(0, step),
      ArrowDown: () => view.pan(0, -step),
      "+": () => view.zoom(0.7, 1),
      "=": () => view.zoom(0.7, 1),
      "-": () => view.zoom(1 / 0.7, 1),
      ">": () => view.zoom(1, 0.7),
      "<": () => view.zoom(1, 1 / 0.7),
      0: () => view.whole(),
      Home: () => view.whole(),
      p: () => this.goToPeak(),
      n: () => this.nextMatch(1),
      N: () => this.nextMatch(-1),
      Enter: () => this.select(this.largestAt(this.cursor), true),
      Escape: () => this.unpin(),
      "/": () => this.searchBox.focus(),
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    // Keys go by what was chosen, wherever the mouse rests.
    this.leave();
    action();
  },

  largestAt(moment) {
    for (let i = this.data.numBlocks - 1; i >= 0; --i)
      if (this.isShown(i) && this.data.isLive(i, moment)) return i;
    return -1;
  },

  goToPeak() {
    const {view, data} = this, length = this.times[data.numMoments] || 1;
    this.pin(data.peak);
    const at = this.times[data.peak] / length, half = (view.x1 - view.x0) / 2;
    if (at < view.x0 || at > view.x1) view.set(at - half, at + half, view.y0, view.y1);
  },

  unpin() {
    this.isPinned = false;
    this.pinned = this.data.peak;
    this.select(-1, false);
    this.tellCursor();
  },

  search(query) {
    this.query = query;
    this.reshade();
  },

  controls() {
    const {data} = this;
    const layersUsed = [...new Set(data.layer)].sort((a, b) => a - b), phasesUsed = [...new Set(data.phase)].sort();
    this.searchBox = element("input", {
      type: "search",
      placeholder: "buffer or layer",
      "aria-label": "Search buffers and layers",
      on: {
        input: () => this.search(this.searchBox.value.trim()),
        keydown: (event) => {
          if (event.key === "Enter") this.nextMatch(event.shiftKey ? -1 : 1);
          if (event.key !== "Escape") return;
          this.searchBox.value = "";
          this.search("");
          this.mapCanvas.focus();
        },
      }
    });
    const zoom = (label, title, action) => button(label, action, {title, "aria-label": title, class: "icon"});
    return element(
      "div", {class: "controls"},
      choice(
        "colour by", Object.entries(colourings),
        (value) => {
          this.colouring = value;
          this.recolour();
        },
        "category"),
      data.hasSeconds() ?
        choice("across", [["op", "ops"], ["seconds", "predicted time"]], (value) => this.setTimes(value), "op") :
        null,
      choice(
        "layer", [["-1", "all"], ...layersUsed.map((layer) => [String(layer), data.layers[layer]])],
        (value) => {
          this.filters.layer = Number(value);
          this.reshade();
        },
        "-1"),
      choice(
        "made in", [["-1", "any phase"], ...phasesUsed.map((phase) => [String(phase), data.phases[phase]])],
        (value) => {
          this.filters.phase = Number(value);
          this.reshade();
        },
        "-1"),
      element("label", {class: "choice"}, "search ", this.searchBox),
      element(
        "span", {class: "zoom", role: "group", "aria-label": "Zoom"},
        zoom("+", "Zoom in", () => this.view.zoom(0.6, 0.8)),
        zoom("−", "Zoom out", () => this.view.zoom(1 / 0.6, 1 / 0.8)),
        zoom("Whole", "Show the whole step", () => this.view.whole()),
        zoom("Peak", "Go to the peak", () => this.goToPeak())),
      this.status);
  },
});
