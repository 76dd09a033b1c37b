// Several plans or runs beside each other: figures with what they differ by from the first, what grew, keys that
// differ, maps under each other, curves in one chart.

// What this process holds by itself is measured as each is planned, and says nothing of their difference.
const outsideOfDevice = (event) => (event.device.kind === "cpu" ? 0 : event.outside_allocator.bytes);

const comparedFigures = [
  ["peak allocated", (event) => event.peak_allocated],
  ["peak reserved", (event) => event.peak_reserved],
  ["peak requested", (event) => event.peak_requested],
  ["outside the allocator", outsideOfDevice],
  ["capacity", (event) => event.capacity],
];

function difference(value, base) {
  if (value === base) return element("span", {class: "quiet"}, "same");
  const sign = value > base ? "+" : "-";
  const share = base === 0 ? "" :
    value >= 10 * base ? ` (${formatCount(value / base)} x)` :
    ` (${sign}${formatPercent(Math.abs(value - base) / base)})`;
  return element("span", {class: "change", "data-bytes": value - base}, `${formatGrowth(value - base)}${share}`);
}

/// "A" to "Z", then "AA", "AB"…, as spreadsheets name their columns.
function letter(index) {
  const last = String.fromCharCode(65 + (index % 26));
  return index < 26 ? last : letter(Math.floor(index / 26) - 1) + last;
}

function comparedKey(titles) {
  return element(
    "ol", {class: "compared-key"},
    titles.map((title, i) => element("li", {}, element("strong", {}, letter(i)), " ", named(title, 110))));
}

function figuresTable(report) {
  const {plans} = report, base = plans[0].event;
  const columns = [
    {title: ""},
    ...plans.flatMap(
      (_, i) =>
        (i === 0 ? [{title: "A", number: true}] :
                   [{title: letter(i), number: true}, {title: `${letter(i)} against A`, number: true}]))
  ];
  const rows =
    comparedFigures.filter(([, value]) => plans.some((plan) => value(plan.event) > 0))
      .map(([name, value]) => [name, ...plans.flatMap(({event}, i) => {
        const cell = bytesCell(value(event));
        return i === 0 ? [cell] : [cell, difference(value(event), value(base))];
      })]);
  const text =
    (name, value) => [name, ...plans.flatMap(({event}, i) => (i === 0 ? [value(event)] : [value(event), ""]))];
  rows.push(
    text("fits", (event) => (event.fits ? "yes" : "no")), text("batch", (event) => formatCount(event.batch_size)),
    text("device", (event) => named(event.device.name, 30)));
  if (plans.some((plan) => plan.event.step_seconds > 0))
    rows.push(
      text("predicted, a step", (event) => formatSeconds(event.step_seconds)),
      text("predicted, samples/s", (event) => formatNumber(event.samples_per_second)));
  return plainTable("Figures of the plans", columns, rows, {id: "compared-figures"});
}

function growthTable(caption, rows, id, then) {
  const total = (name) => rows.reduce((sum, row) => sum + row[name], 0);
  const line = (name, first, second) => [name, bytesCell(first), bytesCell(second), difference(second, first)];
  // Growth stands first, and shrinkage last.
  const changed = rows.filter((row) => row.growth !== 0).sort((a, b) => Math.abs(b.growth) - Math.abs(a.growth));
  const told = new Set(changed.slice(0, mostLayerRows));
  const body = rows.filter((row) => told.has(row)).map((row) => line(named(row.name), row.first, row.second));
  const rest = (text, others) => others.length > 0 &&
    body.push(line(
      `${formatCount(others.length)} ${text}`, others.reduce((sum, row) => sum + row.first, 0),
      others.reduce((sum, row) => sum + row.second, 0)));
  rest("that changed less", changed.slice(mostLayerRows));
  rest("without a change", rows.filter((row) => row.growth === 0));
  body.push({
    class: "sum",
    cells: [
      "allocated at the peak", bytesCell(total("first")), bytesCell(total("second")),
      difference(total("second"), total("first"))
    ]
  });
  return plainTable(
    caption, [{title: ""}, {title: "A", number: true}, {title: then, number: true}, {title: "growth", number: true}],
    body, {id});
}

function growthSections(report) {
  return report.comparison.growth.map(
    (growth, i) => section(
      `What grew from A to ${letter(i + 1)}, at the peaks`, {open: i < 3},
      element(
        "div", {class: "columns two"},
        growthTable("By category", growth.by_category, `growth-category-${i + 1}`, letter(i + 1)),
        growthTable("By layer", growth.by_layer, `growth-layer-${i + 1}`, letter(i + 1)))));
}

function keysTable(report) {
  const {config} = report.comparison;
  if (report.inputs.length < 2) return null;
  if (config.length === 0) return element("p", {}, "No key of the configurations differs.");
  return plainTable(
    "Keys of the configurations that differ",
    [
      {title: "key"},
      ...report.inputs.map(
        (_, i) => ({title: report.inputs.length === report.plans.length ? letter(i) : `input ${i + 1}`}))
    ],
    config.map(
      (row) =>
        [element("code", {}, named(row.key, 80)),
         ...row.values.map(
           (value) => (value === null ? element("span", {class: "quiet"}, "none") : named(value, 40)))]),
    {id: "compared-keys"});
}

/// Runs with their letters, where these stand for inputs.
function labelledRuns({plans, inputs}) {
  return inputs.map((input, i) => ({label: plans.length === inputs.length ? letter(i) : input.label, run: input.run}))
    .filter(({run}) => run);
}

function measuredTable(report) {
  const runs = labelledRuns(report);
  if (runs.length < 2) return null;
  const base = runs[0].run,
        columns = [{title: ""}, ...runs.map(({label}) => ({title: named(label, 30), number: true}))];
  const bytes = (name, value) => [name, ...runs.map(({run}, i) => {
    if (run.num_steps === 0) return "-";
    return i === 0 || base.num_steps === 0 ?
      bytesCell(value(run)) :
      element("span", {}, bytesCell(value(run)), " ", difference(value(run), value(base)));
  })];
  const text = (name, value) => [name, ...runs.map(({run}) => value(run))];
  return plainTable(
    "What the runs measured", columns,
    [
      bytes("peak allocated", (run) => run.peaks.allocated), bytes("peak reserved", (run) => run.peaks.reserved),
      bytes("most used", (run) => run.peaks.used), text("steps", (run) => formatCount(run.last_step)),
      text("status", (run) => named(run.status, 30)),
      text(
        "samples/s",
        (run) => (Number.isFinite(run.end?.samples_per_second) ? formatNumber(run.end.samples_per_second) : "-")),
      text("loss", (run) => (Number.isFinite(run.end?.loss) ? formatNumber(run.end.loss) : "-"))
    ],
    {id: "compared-runs"});
}

/// What stands above the inputs of a page of several.
function comparedSections(report, columns, panels) {
  const parts = [], {plans, inputs} = report;
  if (plans.length > 1) {
    parts.push(section(
      inputs.length > 1 ? "Compared" : "Stages compared", {}, comparedKey(plans.map((plan) => planTitle(report, plan))),
      figuresTable(report), measuredTable(report), keysTable(report)));
    parts.push(...plans.map((plan, i) => mapSection(report, plan, columns, panels, letter(i))));
    // One scale, so that heights compare.
    const highest = Math.max(...panels.map((panel) => panel.highestBytes()));
    for (const panel of panels) panel.leastScale = highest;
    parts.push(...growthSections(report));
  } else {
    parts.push(section("Compared", {}, measuredTable(report), keysTable(report)));
  }
  const runs = labelledRuns(report);
  if (runs.length > 1)
    parts.push(section(
      "Curves of the runs", {},
      element("div", {class: "curves"}, runCharts(runs, columns).map((chart) => chart.element))));
  return parts;
}
