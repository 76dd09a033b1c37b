// Tables: plain ones, and a long one of which only what is seen is in the page.

/// `columns`: {title, number}; cells are texts or elements.
function plainTable(caption, columns, rows, options = {}) {
  return element(
    "div", {class: "scroll", tabindex: 0, role: "region", "aria-label": caption},
    element(
      "table", {class: "plain", ...options}, element("caption", {}, caption),
      element(
        "thead", {},
        element(
          "tr", {},
          columns.map(
            (column) => element("th", {scope: "col", class: column.number ? "number" : null}, column.title)))),
      element(
        "tbody", {},
        rows.map(
          (row) => element(
            "tr", {class: row.class ?? null},
            (row.cells ?? row)
              .map(
                (cell, i) => element(
                  i === 0 ? "th" : "td", {scope: i === 0 ? "row" : null, class: columns[i].number ? "number" : null},
                  cell)))))));
}

function bytesCell(bytes) {
  return element("span", {"data-bytes": bytes, title: `${formatCount(Math.abs(bytes))} bytes`}, formatBytes(bytes));
}

const rowHeight = 24;
const printedRows = 40;

/// All buffers of a map: sorted by a press on a title, filtered as the map is.
class BufferTable {
  constructor(panel) {
    this.panel = panel;
    const {data} = panel;
    this.columns = [
      {title: "buffer", width: "24%", text: (i) => data.name(i)},
      {title: "layer", width: "19%", text: (i) => data.layerName(i)},
      {title: "category", width: "11%", text: (i) => data.categories[data.category[i]]},
      {title: "made in", width: "8%", text: (i) => data.phases[data.phase[i]]},
      {title: "requested", width: "10%", number: (i) => data.requested(i), show: formatBytes},
      {title: "block", width: "10%", number: (i) => data.bytes[i], show: formatBytes},
      {title: "from op", width: "9%", number: (i) => data.begin[i], show: (moment) => data.fromOpText(moment)},
      {
        title: "until op",
        width: "9%",
        number: (i) => (data.end[i] < 0 ? Infinity : data.end[i]),
        show: (moment) => data.untilOpText(moment)
      },
    ];
    this.sorted = {column: 5, descending: true};
    this.rows = element("tbody");
    this.caption = element("caption");
    this.head = element(
      "tr", {},
      this.columns.map(
        (column, at) => element(
          "th", {scope: "col", class: column.number ? "number" : null, style: {width: column.width}},
          button(column.title, () => this.sortBy(at), {class: "sort"}))));
    this.table = element("table", {class: "plain buffers"}, this.caption, element("thead", {}, this.head), this.rows);
    this.scroller = element(
      "div", {
        class: "long",
        tabindex: 0,
        role: "region",
        "aria-label": "All buffers",
        on: {scroll: beforeNextFrame(() => this.render())}
      },
      this.table);
    this.printed = element("div", {class: "print-only"});
    this.element = element("div", {class: "buffer-table"}, this.scroller, this.printed);
    this.scroller.addEventListener("keydown", (event) => this.key(event));
    panel.onShades.push(() => this.refresh());
    panel.onSelection.push((block) => this.follow(block));
    this.refresh();
  }

  sortBy(column) {
    this.sorted = {
      column,
      descending: this.sorted.column === column ? !this.sorted.descending : Boolean(this.columns[column].number)
    };
    this.refresh();
  }

  refresh() {
    const {panel} = this, {data} = panel, {column, descending} = this.sorted, {number, text} = this.columns[column];
    const shown = [];
    for (let i = 0; i < data.numBlocks; ++i)
      if (panel.isShown(i)) shown.push(i);
    const keys = new Map(shown.map((i) => [i, number ? number(i) : text(i)]));
    const order = (a, b) => (keys.get(a) < keys.get(b) ? -1 : keys.get(a) > keys.get(b) ? 1 : 0);
    shown.sort((a, b) => (descending ? order(b, a) : order(a, b)) || data.first[a] - data.first[b] || a - b);
    this.shown = shown;
    const total = shown.reduce((sum, i) => sum + data.bytes[i], 0);
    this.caption.textContent =
      `${counted(shown.length, "buffer")} of ${formatCount(data.numBlocks)} of the step, ${formatBytes(total)} in all`;
    this.scroller.dataset.count = shown.length;
    this.scroller.dataset.bytes = total;
    this.table.setAttribute("aria-rowcount", String(shown.length + 1));
    [...this.head.children].forEach(
      (cell, at) => cell.setAttribute("aria-sort", at === column ? (descending ? "descending" : "ascending") : "none"));
    this.printed.replaceChildren();
    if (shown.length > 0) {
      const rows =
        shown.slice(0, printedRows)
          .map(
            (i) => this.columns.map(
              (shownColumn) =>
                (shownColumn.number ? shownColumn.show(shownColumn.number(i)) : named(shownColumn.text(i), 40))));
      this.printed.append(plainTable(
        shown.length > printedRows ? `The first ${printedRows} of ${formatCount(shown.length)} buffers` : "Buffers",
        this.columns, rows));
    }
    this.render();
  }

  render() {
    const {shown} = this, height = this.scroller.clientHeight || 360;
    const first = Math.max(0, Math.min(Math.floor(this.scroller.scrollTop / rowHeight) - 4, shown.length));
    const last = Math.min(shown.length, first + Math.ceil(height / rowHeight) + 10);
    const space = (count) =>
      (count > 0 ? element("tr", {class: "space", "aria-hidden": "true", style: {height: `${count * rowHeight}px`}}) :
                   null);
    const rows = [];
    for (let at = first; at < last; ++at) rows.push(this.row(shown[at], at));
    this.rows.replaceChildren(...[space(first), ...rows, space(shown.length - last)].filter(Boolean));
  }

  row(block, at) {
    const {panel} = this;
    return element(
      "tr", {
        class: block === panel.selected ? "chosen" : null,
        "aria-rowindex": at + 2,
        "aria-selected": String(block === panel.selected),
        "data-at": at,
        on: {click: () => this.choose(at)}
      },
      this.columns.map(
        (column, i) => element(
          i === 0 ? "th" : "td", {scope: i === 0 ? "row" : null, class: column.number ? "number" : null},
          column.number ? column.show(column.number(block)) : named(column.text(block), 46))));
  }

  choose(at) {
    const {panel} = this, block = this.shown[at];
    panel.select(block, true);
    panel.pin(panel.data.first[block]);
  }

  /// The row of a block that was chosen elsewhere comes into sight.
  follow(block) {
    const at = this.shown.indexOf(block);
    if (at >= 0) {
      const top = at * rowHeight, {scrollTop, clientHeight} = this.scroller;
      if (top < scrollTop || top > scrollTop + clientHeight - 4 * rowHeight)
        this.scroller.scrollTop = Math.max(0, top - clientHeight / 3);
    }
    this.render();
  }

  key(event) {
    const steps = {ArrowDown: 1, ArrowUp: -1};
    if (!(event.key in steps) || event.target !== this.scroller || this.shown.length === 0) return;
    event.preventDefault();
    const at = this.shown.indexOf(this.panel.selected);
    this.choose(Math.max(0, Math.min(this.shown.length - 1, at < 0 ? 0 : at + steps[event.key])));
  }
}
