// What is live at the moment of the cursor, as tables.

const mostRowsLive = 14;

function barCell(share, css) {
  return element(
    "td", {class: "bar"},
    element("span", {style: {width: `${Math.max(0, Math.min(100, 100 * share)).toFixed(2)}%`, background: css}}));
}

/// The places of the largest values above 0, the largest first.
function largestPlaces(values, most) {
  const places = [];
  for (let i = 0; i < values.length; ++i) {
    if (values[i] <= 0 || (places.length === most && values[i] <= values[places[most - 1]])) continue;
    let at = places.length;
    while (at > 0 && values[places[at - 1]] < values[i]) --at;
    places.splice(at, 0, i);
    if (places.length > most) places.pop();
  }
  return places;
}

/// `rows`: {name, bytes, css}, the largest of `count`, largest first; the others are one row.
function shareTable(caption, rows, count, total) {
  const line = (name, bytes, css) => element(
    "tr", {}, element("th", {scope: "row"}, name),
    element("td", {class: "number", title: `${formatCount(bytes)} bytes`, "data-bytes": bytes}, formatBytes(bytes)),
    element("td", {class: "number"}, total > 0 ? formatPercent(bytes / total) : ""),
    barCell(total > 0 ? bytes / total : 0, css));
  const body = rows.map((row) => line(named(row.name, 34), row.bytes, row.css));
  if (count > rows.length)
    body.push(line(
      `${formatCount(count - rows.length)} more`, total - rows.reduce((sum, row) => sum + row.bytes, 0),
      "transparent"));
  body.push(element(
    "tr", {class: "sum"}, element("th", {scope: "row"}, "allocated"),
    element("td", {class: "number", "data-bytes": total, title: `${formatCount(total)} bytes`}, formatBytes(total)),
    element("td"), element("td")));
  return element(
    "table", {class: "shares"}, element("caption", {}, caption),
    element("colgroup", {}, [0, 1, 2, 3].map(() => element("col"))),
    element(
      "thead", {class: "sr-only"},
      element("tr", {}, ["", "bytes", "share", ""].map((title) => element("th", {scope: "col"}, title)))),
    element("tbody", {}, body));
}

class LiveTable {
  constructor(panel) {
    this.panel = panel;
    this.element = element("section", {class: "live", "aria-label": "What is live at the cursor"});
    panel.onCursor.push(() => this.updateSoon());
    panel.onShades.push(() => this.update());
    this.update();
  }

  /// Not with each frame in which the mouse moves.
  updateSoon() {
    this.waiting ??= setTimeout(() => {
      this.waiting = null;
      this.update();
    }, 80);
  }

  update() {
    const {panel} = this, {data} = panel, moment = panel.cursor, live = data.liveAt(moment, mostRowsLive),
          total = data.allocated[moment];
    const categoryColours = panel.palette.categories(), layerColours = panel.palette.layers();
    const categories =
      largestPlaces(live.byCategory, 20)
        .map((i) => ({name: data.categories[i], bytes: live.byCategory[i], css: categoryColours[i].css}));
    const layers =
      largestPlaces(live.byLayer, mostRowsLive)
        .map((i) => ({name: data.layers[i], bytes: live.byLayer[i], css: layerColours[panel.layerColour(i)].css}));
    const buffers =
      live.largest.map((i) => ({name: data.name(i), bytes: data.bytes[i], css: categoryColours[data.category[i]].css}));
    const numLayers = live.byLayer.reduce((count, bytes) => count + (bytes > 0 ? 1 : 0), 0);
    const where = moment === data.peak ? "at the peak" :
      panel.isPinned && panel.hovered === null ? "at the moment you chose" :
      "at the cursor";
    this.element.replaceChildren(
      element(
        "h3", {}, `Live ${where}: `,
        element(
          "span", {class: "quiet"}, `${data.momentText(moment)}, `, named(data.layers[data.momentLayer[moment]], 50),
          `: ${formatBytes(total)} allocated of ${formatBytes(data.reserved[moment])} reserved`)),
      element(
        "div", {class: "columns"}, shareTable("By category", categories, categories.length, total),
        shareTable("By layer", layers, numLayers, total),
        shareTable("Largest buffers", buffers, data.numLive[moment], total)));
  }
}
