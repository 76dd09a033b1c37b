// Curves of runs, drawn by dygraphs (dygraphs.com, MIT), which is told nothing but numbers and letters: names stand in
// legends of our own. The legend of dygraphs writes markup, and is left out.

const curveHeight = 210;
const tableRows = 400;

/// Of curves of one colour.
const patterns = [null, [7, 4], [2, 3], [10, 3, 2, 3]];

/// What a curve is called that dygraphs draws.
function curveKey(index) { return `c${index}`; }

/// TensorBoard's: an exponential average, freed of its start at 0. Gaps stay gaps.
function smoothed(values, weight) {
  if (weight === 0) return values;
  let last = 0, mass = 0;
  return values.map((value) => {
    if (!Number.isFinite(value)) return value;
    last = last * weight + (1 - weight) * value;
    mass = mass * weight + (1 - weight);
    return last / mass;
  });
}

/// Curves over steps, of one run or several: {title, unit, series: [{name, steps, values, colour, pattern, points}],
/// bands, marks, hasLog, hasSmoothing}.
class CurveChart {
  constructor(chart) {
    this.chart = chart;
    this.isLog = false;
    this.weight = 0;
    this.collect();
    this.box = element("div", {
      class: "curve-box",
      tabindex: 0,
      role: "img",
      "aria-label": this.text(),
      style: {height: `${curveHeight}px`},
      on: {keydown: (event) => this.key(event)}
    });
    this.readout = element("span", {class: "readout quiet"});
    this.legend = element("div", {class: "legend"});
    this.element = element(
      "figure", {class: "curve"}, element("figcaption", {}, element("h3", {}, chart.title), this.readout),
      this.controls(), this.box, this.legend, this.dataTable());
    // Drawn once it can be seen: dygraphs measures its place.
    const observer = new ResizeObserver(() => {
      if (this.box.clientWidth === 0) return;
      if (this.graph)
        this.graph.resize();
      else
        this.begin();
    });
    observer.observe(this.box);
    theme.listeners.push(() => this.graph && this.update());
  }

  /// All steps of all curves, in order, with each curve's value at each, NaN where it has none.
  collect() {
    this.steps = [...new Set(this.chart.series.flatMap((series) => [...series.steps]))].sort((a, b) => a - b);
    const place = new Map(this.steps.map((step, i) => [step, i]));
    for (const series of this.chart.series) {
      series.row = new Array(this.steps.length).fill(null);
      series.steps.forEach((step, i) => (series.row[place.get(step)] = series.values[i]));
    }
  }

  text() {
    const parts = this.chart.series.map((series) => {
      const finite = [...series.values].filter(Number.isFinite);
      if (finite.length === 0) return `${series.name}: nothing finite`;
      const lowest = finite.reduce((a, b) => Math.min(a, b)), highest = finite.reduce((a, b) => Math.max(a, b));
      return `${series.name} from ${this.show(finite[0])} to ${this.show(finite[finite.length - 1])}, lowest ${
        this.show(lowest)}, highest ${this.show(highest)}`;
    });
    return visible(`${this.chart.title} over steps ${formatCount(this.steps[0] ?? 0)} to ${
      formatCount(this.steps.at(-1) ?? 0)}. ${parts.join("; ")}. The same stands in the table below.`);
  }

  show(value) {
    const {unit} = this.chart;
    return unit === "bytes" ? formatBytes(Math.round(value)) :
      unit === "seconds" ? formatSeconds(value) :
      formatNumber(value);
  }

  controls() {
    const {chart} = this;
    if (!chart.hasLog && !chart.hasSmoothing) return null;
    const slider = element("input", {
      type: "range",
      min: 0,
      max: 0.99,
      step: 0.01,
      value: 0,
      on: {
        input: () => {
          this.weight = Number(slider.value);
          shown.textContent = slider.value;
          this.update();
        }
      }
    });
    const shown = element("output", {class: "quiet"}, "0");
    const setLog = (event) => {
      this.isLog = event.target.checked;
      this.update();
    };
    const box = element("input", {type: "checkbox", on: {change: setLog}});
    return element(
      "div", {class: "controls"}, chart.hasLog ? element("label", {class: "choice"}, box, " log scale") : null,
      chart.hasSmoothing ? element("label", {class: "choice"}, "smoothing ", slider, " ", shown) : null);
  }

  rows() {
    const values = this.chart.series.map((series) => (series.points ? series.row : smoothed(series.row, this.weight)));
    const faint = this.weight > 0 ? this.chart.series.map((series) => series.row) : [];
    const isShown = (value) => Number.isFinite(value) && (!this.isLog || value > 0);
    const drawn = (value) => (value === null ? null : isShown(value) ? value : NaN);
    return this.steps.map((step, i) => [step, ...[...values, ...faint].map((row) => drawn(row[i]))]);
  }

  options() {
    const palette = new Palette(), colours = palette.curves(), {chart} = this;
    const colourOf = (series, i) => colours[(series.colour ?? i) % colours.length].css;
    const series = {};
    chart.series.forEach((each, i) => {
      const isFew = each.steps.length < 40;
      series[curveKey(i)] = {
        color: colourOf(each, i),
        strokeWidth: each.points ? 1 : 1.6,
        strokePattern: patterns[(each.pattern ?? 0) % patterns.length],
        drawPoints: each.points || isFew,
        pointSize: each.points ? 3 : 2
      };
      series[`${curveKey(i)}f`] = {color: colourOf(each, i), strokeWidth: 0.6, drawPoints: false};
    });
    this.legend.replaceChildren(...chart.series.map(
      (each, i) => element(
        "span", {class: "key"}, element("span", {
          class: `swatch line pattern${(each.pattern ?? 0) % patterns.length}`,
          style: {"border-color": colourOf(each, i)}
        }),
        named(each.name, 60))));
    const keys = chart.series.map((_, i) => curveKey(i)), faint = this.weight > 0 ? keys.map((key) => `${key}f`) : [];
    return {
      labels: ["step", ...keys, ...faint],
      series,
      legend: "never",
      connectSeparatedPoints: true,
      logscale: this.isLog,
      axisLabelFontSize: 11,
      axisLineColor: palette.frame,
      gridLineColor: palette.grid,
      highlightCircleSize: 3,
      includeZero: chart.unit === "bytes" && !this.isLog,
      axes: {
        x: {axisLabelFormatter: (value) => (Number.isInteger(value) ? formatCount(value) : ""), pixelsPerLabel: 70},
        y: {
          axisLabelFormatter: (value) => this.show(value),
          axisLabelWidth: 72,
          pixelsPerLabel: 36,
          labelsKMG2: chart.unit === "bytes"
        }
      },
      yRangePad: 6,
      highlightCallback: (_, step, points) => this.tell(step, points),
      unhighlightCallback: () => (this.readout.textContent = ""),
      underlayCallback: (context, area, graph) => this.drawUnderlay(context, area, graph, palette),
    };
  }

  begin() {
    // A step alone stands in the middle.
    const [first, last] = [this.steps[0], this.steps.at(-1)];
    this.whole = first === last ? [first - 1, last + 1] : [first, last];
    this.graph = new Dygraph(this.box, this.rows(), {...this.options(), dateWindow: this.whole});
  }

  update() { this.graph?.updateOptions({file: this.rows(), ...this.options()}); }

  tell(step, points) {
    const values =
      this.chart.series
        .map((series, i) => {
          const point = points.find((each) => each.name === curveKey(i));
          return point && Number.isFinite(point.yval) ? `${shortened(series.name, 24)} ${this.show(point.yval)}` : null;
        })
        .filter(Boolean);
    this.readout.textContent = `step ${formatCount(step)}: ${values.join(", ")}`;
  }

  /// Stages as bands with names, and what happened as marks at the top.
  drawUnderlay(context, area, graph, palette) {
    context.save();
    context.font = "11px system-ui, sans-serif";
    const toX = (step) => Math.max(area.x, Math.min(area.x + area.w, graph.toDomXCoord(step)));
    (this.chart.bands ?? []).forEach((band, i, bands) => {
      if (bands.length < 2) return;
      const left = toX(band.first - 0.5), right = toX(band.last + 0.5);
      if (i % 2 === 0) {
        context.fillStyle = cssColour("--cached");
        context.fillRect(left, area.y, right - left, area.h);
      }
      context.fillStyle = palette.quiet;
      context.textBaseline = "top";
      const name = shortened(band.name, Math.max(4, Math.floor((right - left) / 7)));
      if (right - left > 30) context.fillText(name, left + 4, area.y + 2);
    });
    for (const mark of this.chart.marks ?? []) {
      const x = toX(mark.step);
      context.strokeStyle = mark.kind === "checkpoint" ? palette.frame : palette.alarm;
      context.setLineDash(mark.kind === "checkpoint" ? [2, 3] : []);
      context.beginPath();
      context.moveTo(x, area.y);
      context.lineTo(x, area.y + area.h);
      context.stroke();
    }
    context.restore();
  }

  key(event) {
    if (!this.graph || event.target !== this.box) return;
    const [begin, end] = this.graph.xAxisRange(), width = end - begin;
    const windows = {
      ArrowLeft: [begin - width / 5, end - width / 5],
      ArrowRight: [begin + width / 5, end + width / 5],
      "+": [begin + width / 5, end - width / 5],
      "=": [begin + width / 5, end - width / 5],
      "-": [begin - width / 3, end + width / 3],
      0: this.whole,
      Home: this.whole
    };
    const dateWindow = windows[event.key];
    if (!dateWindow) return;
    event.preventDefault();
    this.graph.updateOptions(
      {dateWindow: [Math.max(this.whole[0], dateWindow[0]), Math.min(this.whole[1], dateWindow[1])]});
  }

  dataTable() {
    const details = element("details", {class: "data-table"}, element("summary", {}, "as a table"));
    details.addEventListener("toggle", () => {
      if (!details.open || details.childElementCount > 1) return;
      const stride = Math.max(1, Math.ceil(this.steps.length / tableRows));
      const columns = [
        {title: "step", number: true},
        ...this.chart.series.map((series) => ({title: named(series.name, 30), number: true}))
      ];
      const rows = [];
      for (let i = 0; i < this.steps.length; i += stride)
        rows.push([
          formatCount(this.steps[i]),
          ...this.chart.series.map((series) => (series.row[i] === null ? "" : this.show(series.row[i])))
        ]);
      details.append(
        plainTable(stride > 1 ? `${this.chart.title}, every ${stride}th point` : this.chart.title, columns, rows));
    });
    return details;
  }
}

/// Charts of runs: [{label, run}]. Several runs share each chart, a colour each.
function runCharts(runs, columns) {
  const isOne = runs.length === 1;
  const charts = [];
  const add = (name, title, unit, options = {}) => {
    const series = [];
    runs.forEach(({label, run}, at) => {
      const curves = run.curves[name];
      if (!curves) return;
      const steps = columns.integers(curves.steps);
      for (const each of curves.series) {
        if (!isOne && options.only && !options.only.includes(each.name)) continue;
        series.push({
          name: isOne ? each.name : `${label}: ${each.name}`,
          steps,
          values: columns.numbers(each.values),
          colour: isOne ? undefined : at,
          pattern: isOne ?
            (each.name.startsWith("planned") ? 1 : 0) :
            curves.series.filter((other) => !options.only || options.only.includes(other.name)).indexOf(each)
        });
      }
    });
    if (options.evaluations)
      runs.forEach(
        ({label, run}, at) => series.push(
          ...evaluationSeries(run, columns, options.evaluations, isOne ? "" : `${label}: `, isOne ? 1 : at)));
    const drawn = series.filter((each) => each.steps.length > 0);
    if (drawn.length === 0) return;
    const marks = isOne ? marksOf(runs[0].run) : [];
    charts.push(
      new CurveChart({title, unit, series: drawn, bands: isOne ? runs[0].run.stages : [], marks, ...options.chart}));
  };
  add("loss", "Loss", "number", {evaluations: (name) => name === "loss", chart: {hasLog: true, hasSmoothing: true}});
  add("none", "Evaluation metrics", "number", {evaluations: (name) => name !== "loss"});
  add("memory", "Memory of each step", "bytes", {only: ["peak allocated", "reserved", "used"]});
  add("speed", "Speed, samples a second", "number", {chart: {hasSmoothing: true}});
  add("time", "Time of a step", "seconds", {chart: {hasLog: true, hasSmoothing: true}});
  add("learning_rate", "Learning rate", "number", {chart: {hasLog: true}});
  add("utilization", "Model FLOPs utilization", "number", {});
  add("loss_scale", "Loss scale", "number", {chart: {hasLog: true}});
  return charts;
}

function evaluationSeries(run, columns, isWanted, prefix, colour) {
  const steps = columns.integers(run.evaluations.steps);
  return run.evaluations.series.filter((series) => isWanted(series.name))
    .map((series, i) => ({
           name: `${prefix}${series.name} on validation data`,
           steps,
           values: columns.numbers(series.values),
           points: true,
           pattern: prefix === "" ? 0 : i,
           colour: colour + (prefix === "" ? i : 0)
         }));
}

function marksOf(run) {
  return [
    ...run.checkpoints.map((step) => ({step, kind: "checkpoint"})),
    ...run.warnings.map((warning) => ({step: warning.step, kind: "warning"}))
  ];
}
