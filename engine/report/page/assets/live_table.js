// What is live at the moment of the cursor, as tables.

const mostRowsLive = 14;

function barCell(share, css) {
  return element("td", {class: "bar"}, element("span", {style: {width: `${Math.max(0, Math.min(100, 100 * share)).toFixed(2)}%`, background: css}}));
}

/// `rows`: {name, bytes, css}, largest first; what does not fit is one row of its own.
function shareTable(caption, rows, total, mostRows) {
  const shown = rows.slice(0, mostRows), rest = rows.slice(mostRows);
  const line = (name, bytes, css) => element("tr", {}, element("th", {scope: "row"}, name), element("td", {class: "number", title: `${formatCount(bytes)} bytes`, "data-bytes": bytes}, formatBytes(bytes)),
    element("td", {class: "number"}, total > 0 ? formatPercent(bytes / total) : ""), barCell(total > 0 ? bytes / total : 0, css));
  const body = shown.map((row) => line(named(row.name, 34), row.bytes, row.css));
  if (rest.length > 0) body.push(line(`${formatCount(rest.length)} more`, rest.reduce((sum, row) => sum + row.bytes, 0), "transparent"));
  body.push(element("tr", {class: "sum"}, element("th", {scope: "row"}, "allocated"), element("td", {class: "number", "data-bytes": total, title: `${formatCount(total)} bytes`}, formatBytes(total)), element("td"), element("td")));
  return element("table", {class: "shares"}, element("caption", {}, caption), element("colgroup", {}, [0, 1, 2, 3].map(() => element("col"))), element("thead", {class: "sr-only"}, element("tr", {}, ["", "bytes", "share", ""].map((title) => element("th", {scope: "col"}, title)))), element("tbody", {}, body));
}

class LiveTable {
  constructor(panel) {
    this.panel = panel;
    this.element = element("section", {class: "live", "aria-label": "What is live at the cursor"});
    panel.onCursor.push(() => this.update());
    panel.onShades.push(() => this.update());
    this.update();
  }

  update() {
    const {panel} = this, {data} = panel, moment = panel.cursor, live = data.liveAt(moment), total = data.allocated[moment];
    const categoryColours = panel.palette.categories(), layerColours = panel.palette.layers();
    const categories = data.categories.map((name, i) => ({name, bytes: live.byCategory[i], css: categoryColours[i].css}));
    const layers = data.layers.map((name, i) => ({name, bytes: live.byLayer[i], css: layerColours[panel.layerColour(i)].css}));
    const buffers = live.blocks.reverse().slice(0, mostRowsLive).map((i) => ({name: data.name(i), bytes: data.bytes[i], css: categoryColours[data.category[i]].css}));
    const others = live.blocks.length - buffers.length, shown = buffers.reduce((sum, row) => sum + row.bytes, 0);
    const sorted = (rows) => rows.filter((row) => row.bytes > 0).sort((a, b) => b.bytes - a.bytes);
    const bufferTable = shareTable("Largest buffers", buffers, total, mostRowsLive);
    if (others > 0) bufferTable.tBodies[0].rows[buffers.length].before(element("tr", {}, element("th", {scope: "row"}, `${formatCount(others)} more`), element("td", {class: "number"}, formatBytes(total - shown)), element("td", {class: "number"}, formatPercent((total - shown) / total)), element("td")));
    const where = moment === data.peak ? "at the peak" : panel.isPinned && panel.hovered === null ? "at the moment you chose" : "at the cursor";
    this.element.replaceChildren(
      element("h3", {}, `Live ${where}: `, element("span", {class: "quiet"}, `${data.momentText(moment)}, `, named(data.layers[data.momentLayer[moment]], 50), `: ${formatBytes(total)} allocated of ${formatBytes(data.reserved[moment])} reserved`)),
      element("div", {class: "columns"}, shareTable("By category", sorted(categories), total, 20), shareTable("By layer", sorted(layers), total, mostRowsLive), bufferTable));
  }
}
