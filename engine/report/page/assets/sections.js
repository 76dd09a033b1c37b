// The parts of the page that tell of one input.

function deviceText(device) {
  return device.kind === "cpu" || device.kind === "cuda" ? `${device.name} (${device.kind})` : device.name;
}

function fitText(event) {
  const spare = event.capacity - event.peak_reserved;
  if (event.fits)
    return `Fits: it reserves ${formatBytes(event.peak_reserved)} of ${formatBytes(event.capacity)}, ${
      formatBytes(spare)} (${formatPercent(spare / event.capacity)}) to spare.`;
  return `Does not fit: it would reserve ${formatBytes(event.peak_reserved)}, and the capacity is ${
    formatBytes(event.capacity)}.`;
}

// Maps, since what is looked up comes from files, and an object answers to "constructor", too.
const statusTexts = new Map([
  ["done", "Done"],
  ["oom", "Out of memory"],
  ["interrupted", "Interrupted; it can be resumed"],
  ["diverged", "Diverged"],
  ["failed", "Failed"],
  ["unfinished", "Unfinished: it goes on, or was ended from outside"],
]);

const numbersTexts = new Map([
  ["same_bits", "same result"],
  ["same_rounding", "same result but for rounding"],
  ["other", "changes the result"],
]);

function badge(text, kind) { return element("span", {class: `badge ${kind}`}, text); }

function inputTitle(input) {
  const name = input.name === "" ? input.label : input.name;
  return input.num_ranks > 1 ? `${name}, rank ${input.rank}` : name;
}

/// What a plan is called beside others.
function planTitle(report, plan) {
  const input = report.inputs[plan.input];
  const stage = plan.stage === "" ? "" : `, stage ${plan.stage}`;
  return `${input.label}${input.num_ranks > 1 ? `, rank ${plan.rank}` : ""}${stage}`;
}

function runFacts(run) {
  const end = run.end ?? {};
  return facts([
    ["steps", `${formatCount(run.last_step)} of ${formatCount(run.total_steps)}`],
    ["peak allocated", run.num_steps > 0 ? bytesCell(run.peaks.allocated) : null],
    ["peak reserved", run.num_steps > 0 ? bytesCell(run.peaks.reserved) : null],
    ["most used", run.num_steps > 0 ? bytesCell(run.peaks.used) : null],
    ["device", named(deviceText(run.device))],
    ["capacity", bytesCell(run.capacity)],
    ["batch", formatCount(run.batch_size)],
    ["parameters", formatCount(run.parameters)],
    ["time", Number.isFinite(end.seconds) ? formatSeconds(end.seconds) : null],
    ["speed", Number.isFinite(end.samples_per_second) ? `${formatNumber(end.samples_per_second)} samples/s` : null],
    ["loss", Number.isFinite(end.loss) ? formatNumber(end.loss) : null],
    ["accuracy", Number.isFinite(end.accuracy) ? formatPercent(end.accuracy) : null],
    ["started", run.starts > 1 ? `${formatCount(run.starts)} times (resumed)` : null],
    ["trainer", named(run.version, 30)],
  ]);
}

function planFacts(plan) {
  const {event} = plan;
  return facts([
    ["peak allocated", bytesCell(event.peak_allocated)],
    ["peak reserved", bytesCell(event.peak_reserved)],
    [
      "capacity",
      element(
        "span", {}, bytesCell(event.capacity), " ", element("span", {class: "quiet"}, visible(event.capacity_from)))
    ],
    ["outside the allocator", event.outside_allocator.bytes > 0 ? bytesCell(event.outside_allocator.bytes) : null],
    ["device", named(deviceText(event.device))],
    ["batch", formatCount(event.batch_size)],
    ["steps", formatCount(event.total_steps)],
    ["a step", event.step_seconds > 0 ? formatSeconds(event.step_seconds) : null],
    ["speed", event.samples_per_second > 0 ? `${formatNumber(event.samples_per_second)} samples/s` : null],
    ["allocator", event.allocator],
    ["ranks", plan.layout === "" ? null : visible(plan.layout)],
  ]);
}

function notesOf(plan) { return plan.event.notes.map((note) => element("p", {class: "note"}, visible(note))); }

/// How much is missing, why, and what to change; nothing where it fits.
function fixesSection(report, plan) {
  const {event} = plan;
  if (event.fits || report.inputs[plan.input].run?.oom) return null;
  const failure = event.failure;
  const parts = [];
  if (failure)
    parts.push(element(
      "p", {},
      failure.at_peak ? `It would fail while loading, for the one segment of ${formatBytes(failure.segment)}.` :
                        `It would fail in step ${formatCount(failure.step)}, ${failure.phase}, `,
      failure.at_peak ? null : named(failure.layer || noLayerName), failure.at_peak ? null : `, for `,
      failure.at_peak ? null : named(failure.buffer),
      failure.at_peak ? null : ` of ${formatBytes(failure.requested)}.`));
  parts.push(...paragraphs(plan.missing), ...paragraphs(plan.diagnosis));
  parts.push(fixesTable(event.fixes ?? [], plan.commands));
  return section("What to change so that it fits", {}, ...parts);
}

function fixesTable(fixes, commands) {
  if (fixes.length === 0)
    return element("p", {}, "No change was found that fits: use a smaller model, or more memory.");
  const rows = fixes.map(
    (fix, i) =>
      [element("code", {}, named(fix.set.join(" "), 200)), named(fix.what, 300), bytesCell(fix.peak_reserved),
       fix.fits ? "fits" : "does not fit", numbersTexts.get(fix.numbers) ?? "",
       `${fix.relative_step_time.toFixed(2)} x`,
       commands[i] ? element("code", {class: "command"}, visible(commands[i])) : ""]);
  return plainTable(
    "Changes, each planned again; the best first",
    [
      {title: "change"}, {title: "what it does"}, {title: "reserves", number: true}, {title: ""}, {title: "numbers"},
      {title: "time a sample", number: true}, {title: "to plan it"}
    ],
    rows, {id: "fixes"});
}

/// Of a table of layers.
const mostLayerRows = 300;

const useTexts = [
  ["standing", "there all the time: parameters, optimizer state"],
  ["gradients", "gradients of parameters, for the update"],
  ["kept", "kept from the forward pass for the backward pass"],
  ["recomputed", "computed again, for later ops"],
  ["waiting", "what else later ops read: gradients of activations"],
  ["read", "read by the op at the peak"],
  ["written", "written by it"],
  ["workspace", "scratch of it"],
];

function peakSection(plan) {
  const {event} = plan, uses = event.peak_uses, peak = event.peak;
  const useRows = useTexts.filter(([name]) => uses[name] > 0)
                    .sort((a, b) => uses[b[0]] - uses[a[0]])
                    .map(([name, text]) => [name, text, bytesCell(uses[name]), formatPercent(uses[name] / peak.bytes)]);
  useRows.push({class: "sum", cells: ["allocated", "", bytesCell(peak.bytes), ""]});
  const categories = Object.entries(event.by_category).filter(([, bytes]) => bytes > 0).sort((a, b) => b[1] - a[1]);
  const names = categories.map(([name]) => name);
  const categoryRows = categories.map(
    ([name,
      bytes]) => [name, bytesCell(bytes), formatPercent(bytes / peak.bytes), bytesCell(event.category_peaks[name])]);
  categoryRows.push({class: "sum", cells: ["allocated", bytesCell(peak.bytes), "", ""]});
  const layers = [...event.by_layer].sort((a, b) => b.bytes - a.bytes);
  const layerRows =
    layers.slice(0, mostLayerRows)
      .map(
        (layer) =>
          [named(layer.layer),
           ...names.map((name) => (layer.by_category[name] > 0 ? formatBytes(layer.by_category[name]) : "")),
           bytesCell(layer.bytes), formatPercent(layer.bytes / peak.bytes)]);
  const rest = layers.slice(mostLayerRows), restBytes = rest.reduce((sum, layer) => sum + layer.bytes, 0);
  if (rest.length > 0)
    layerRows.push([
      `${formatCount(rest.length)} more`,
      ...names.map((name) => formatBytes(rest.reduce((sum, layer) => sum + layer.by_category[name], 0))),
      bytesCell(restBytes), formatPercent(restBytes / peak.bytes)
    ]);
  layerRows.push({
    class: "sum",
    cells: ["allocated", ...names.map((name) => formatBytes(event.by_category[name])), bytesCell(peak.bytes), ""]
  });
  return section(
    "Why the peak is what it is", {}, element("p", {}, visible(plan.peak_text)),
    element(
      "div", {class: "columns two"},
      plainTable(
        "What it is for", [{title: "use"}, {title: ""}, {title: "bytes", number: true}, {title: "share", number: true}],
        useRows, {id: null}),
      plainTable(
        "By category at the peak",
        [
          {title: "category"}, {title: "bytes", number: true}, {title: "share", number: true},
          {title: "its own highest", number: true}
        ],
        categoryRows, {class: "plain by-category"})),
    plainTable(
      "By layer at the peak",
      [
        {title: "layer"}, ...names.map((name) => ({title: name, number: true})), {title: "bytes", number: true},
        {title: "share", number: true}
      ],
      layerRows, {class: "plain by-layer"}));
}

/// Of a kind of step, which steps are of it.
function stepsText({first_step: first, count, evaluation}) {
  if (evaluation) return `evaluation after step ${formatCount(first)}`;
  if (first === 0) return "loading";
  if (count === 1) return `step ${formatCount(first)}`;
  return `steps ${formatCount(first)} to ${formatCount(first + count - 1)}`;
}

function stepsSection(plan) {
  const {event} = plan, {cycle} = event;
  const figures = ["peak_requested", "peak_allocated", "peak_reserved", "requested", "allocated", "reserved"];
  const rows = event.steps.map((step) => [stepsText(step), ...figures.map((name) => bytesCell(step[name]))]);
  rows.push({
    class: "sum",
    cells: [
      "run", bytesCell(event.peak_requested), bytesCell(event.peak_allocated), bytesCell(event.peak_reserved), "", "",
      ""
    ]
  });
  const repeats = cycle.num_steps > 0 ?
    element(
      "p", {class: "quiet"},
      `From step ${formatCount(cycle.first_step)} on, ${formatCount(cycle.num_steps)} steps repeat to step ${
        formatCount(cycle.end - 1)}.`) :
    null;
  return section(
    "Steps of the run", {open: rows.length <= 30},
    plainTable(
      "Memory of each kind of step",
      [
        {title: ""}, {title: "peak requested", number: true}, {title: "peak allocated", number: true},
        {title: "peak reserved", number: true}, {title: "requested after", number: true},
        {title: "allocated after", number: true}, {title: "reserved after", number: true}
      ],
      rows, {class: "plain steps"}),
    repeats);
}

function processSection(plan) {
  const {event} = plan, outside = event.outside_allocator, process = event.process;
  const rows = process.parts.map((part) => [visible(part.name), bytesCell(part.bytes)]);
  rows.push({class: "sum", cells: ["beside the allocator", bytesCell(process.beside_allocator)]});
  if (process.expected_resident_peak !== null)
    rows.push({
      class: "sum",
      cells: ["expected resident peak, with the allocator's memory", bytesCell(process.expected_resident_peak)]
    });
  const parts = [plainTable(
    event.device.kind === "cpu" ? "What the process holds" : "What the process holds of the host's memory",
    [{title: ""}, {title: "bytes", number: true}], rows)];
  if (outside.parts.length > 0)
    parts.push(plainTable("On the device, outside the allocator", [{title: ""}, {title: "bytes", number: true}], [
      ...outside.parts.map((part) => [visible(part.name), bytesCell(part.bytes)]),
      {class: "sum", cells: ["in all", bytesCell(outside.bytes)]}
    ]));
  return section("Outside the allocator", {}, element("div", {class: "columns two"}, parts));
}

/// The map of a plan with everything that is linked to it. Beside others, tables are folded, and `title` is its letter.
function mapSection(report, plan, columns, panels, title = "") {
  const where = plan.map.step === 0 && !plan.map.evaluation ?
    "loading" :
    `${plan.map.evaluation ? "the evaluation after step" : "step"} ${formatCount(plan.map.step)}`;
  const panel = new MemoryMapPanel(new MemoryData(plan.map, plan, columns), plan.event.capacity, where);
  panels.push(panel);
  const isOne = title === "";
  const explains = isOne || title === letter(0);
  return section(
    `${isOne ? "M" : `${title}: m`}emory of ${where}, which holds the peak`, {}, panel.controls(), panel.legend,
    panel.element,
    explains &&
      element(
        "p", {class: "hint quiet no-print"},
        "Above: what is held over the step. Below: each block at its address while it lives, on the grey of what is " +
          "held from the device; grey alone is cached and free. At its left stands the size of each segment. Drag moves, " +
          "Shift and drag zooms into a box, the " +
          "wheel zooms once the map was pressed. ? tells the keys."),
    panel.detail,
    isOne ? new LiveTable(panel).element :
            element(
              "details", {class: "section inner"},
              element("summary", {}, element("h3", {}, "What is live at the cursor")), new LiveTable(panel).element),
    element(
      "details", {class: "section inner", open: isOne},
      element("summary", {}, element("h3", {}, "All buffers of the step")), new BufferTable(panel).element));
}

/// `map`: its map's section, where that does not stand elsewhere.
function planSections(report, plan, map) {
  return [
    ...notesOf(plan), fixesSection(report, plan), map, peakSection(plan), stepsSection(plan), processSection(plan),
    section(
      "The plan as trainer plan tells it", {open: false}, element("pre", {tabindex: 0}, visibleLines(plan.report)))
  ];
}

/// How a run ended, where it did not end well.
function runProblems(run, plans) {
  const parts = [];
  const {oom, diverged} = run;
  if (oom) {
    parts.push(element(
      "p", {}, oom.step === 0 ? "While loading" : `In step ${formatCount(oom.step)}`, ", ", named(oom.phase), ", ",
      named(oom.layer || noLayerName), ` asked for ${formatBytes(oom.requested)} for `, named(oom.buffer),
      `. ${formatBytes(oom.allocated)} were allocated and ${formatBytes(oom.reserved)} reserved of a capacity of ${
        formatBytes(oom.capacity)}.`));
    parts.push(...plans.flatMap((plan) => [...paragraphs(plan.missing), ...paragraphs(plan.diagnosis)]));
    parts.push(fixesTable(oom.fixes, oom.fixes.map((fix) => fix.command)));
    const {top} = oom;
    if (top.length > 0)
      parts.push(plainTable(
        "The largest buffers then",
        [{title: "buffer"}, {title: "layer"}, {title: "category"}, {title: "bytes", number: true}],
        top.map(
          (buffer) => [named(buffer.name), named(buffer.layer), named(buffer.category), bytesCell(buffer.bytes)])));
  }
  if (diverged) {
    parts.push(element(
      "p", {}, `The loss of step ${formatCount(diverged.step)} is not finite.`, diverged.tensor === "" ? null : [
        " The first value that is not finite is in ", named(diverged.tensor), " of ",
        named(diverged.layer || noLayerName), "."
      ]));
    parts.push(element("p", {}, "Try a lower optimizer.lr, or schedule.warmup_steps, or train.clip_norm=1."));
  }
  const error = run.end?.error ?? "";
  if (error !== "") parts.push(element("p", {class: "problem"}, named(error, 1000)));
  const title = oom ? "Out of memory" : diverged ? "Diverged" : "How it ended";
  return parts.length === 0 ? null : section(title, {}, ...parts);
}

function plannedText(run) {
  const {steps, equal} = run.planned;
  if (steps === 0) return null;
  return element(
    "p", {class: equal === steps ? "good" : "note"},
    equal === steps ?
      `The peaks of all ${formatCount(steps)} steps are those planned, to the byte.` :
      `${formatCount(equal)} of ${formatCount(steps)} steps have the peaks that were planned here, to the byte.`);
}

function runSections(input, plans, columns, isOne) {
  const {run} = input, parts = [runProblems(run, plans)];
  if (run.warnings.length > 0)
    parts.push(section(
      `Warnings (${toldOfAll(run.warnings, run.num_warnings)})`, {open: run.warnings.length <= 5},
      plainTable(
        "Warnings", [{title: "step", number: true}, {title: "warning"}],
        run.warnings.map((warning) => [formatCount(warning.step), named(warning.message, 500)]))));
  if (run.adaptations.length > 0)
    parts.push(section(
      `What it changed by itself (${toldOfAll(run.adaptations, run.num_adaptations)})`, {},
      plainTable(
        "Adaptations", [{title: "step", number: true}, {title: "set"}, {title: "what it does"}],
        run.adaptations.map(
          (each) => [formatCount(each.step), named(each.set.join(" "), 300), named(each.what, 300)]))));
  const charts = runCharts([{label: input.label, run}], columns);
  if (charts.length > 0)
    parts.push(section(
      "Curves", {open: isOne}, element("div", {class: "curves"}, charts.map((chart) => chart.element)),
      marksText(run)));
  else
    parts.push(element("p", {class: "note"}, "No step was finished."));
  parts.push(plannedText(run));
  if (input.no_plan !== "")
    parts.push(element("p", {class: "note no-plan"}, "There is no plan under this run: ", named(input.no_plan, 1000)));
  return parts;
}

/// "5", or "200 of 3,000" where a page holds but some.
function toldOfAll(told, count) {
  return told.length < count ? `${formatCount(told.length)} of ${formatCount(count)}` : formatCount(count);
}

function marksText(run) {
  const texts = [];
  const {checkpoints, warnings} = run;
  if (checkpoints.length > 0)
    texts.push(`Dotted lines are checkpoints (${toldOfAll(checkpoints, run.num_checkpoints)}).`);
  if (warnings.length > 0) texts.push(`Red lines are warnings (${toldOfAll(warnings, run.num_warnings)}).`);
  if (run.stages.length > 1) texts.push("Bands are stages.");
  const {series, num_metrics: numMetrics} = run.evaluations;
  // The loss is a series, but no metric.
  if (series.length - 1 < numMetrics)
    texts.push(
      `Of ${formatCount(numMetrics)} evaluation metrics the first ${formatCount(series.length - 1)} are drawn.`);
  if ([...Object.values(run.curves), run.evaluations].some((curves) => curves && curves.of > curves.steps.count))
    texts.push("Long curves are drawn by their lowest and highest points.");
  return texts.length === 0 ? null : element("p", {class: "quiet"}, texts.join(" "));
}

function configSection(input) {
  return section(
    "Configuration", {open: false}, element("p", {class: "quiet"}, "Every key with its value, resolved."),
    element("pre", {tabindex: 0, class: "config"}, visibleLines(input.config)));
}

/// An input's head: what it is, and its figures.
function inputHead(report, input) {
  const {run} = input, plans = input.plans.map((at) => report.plans[at]);
  const fits = plans.every((plan) => plan.event.fits);
  const badges = run ?
    [
      badge("run", "neutral"),
      badge(
        statusTexts.get(run.status) ?? named(run.status, 40),
        run.status === "done" ? "good" : ["unfinished", "interrupted"].includes(run.status) ? "neutral" : "bad")
    ] :
    [badge("plan", "neutral"), badge(fits ? "fits" : "does not fit", fits ? "good" : "bad")];
  return element(
    "div", {class: "input-head"},
    element(
      "h2", {class: "input-title"}, report.inputs.length > 1 ? [named(inputTitle(input), 90), " "] : null, badges),
    element("p", {class: "quiet"}, named(input.label, 160)), run ? runFacts(run) : planFacts(plans[0]),
    run ? null :
          plans.map(
            (plan) => element(
              "p", {class: plan.event.fits ? "good" : "problem"},
              plans.length > 1 ? ["Stage ", named(plan.stage), ": "] : null, fitText(plan.event))),
    run ? null : element("p", {class: "quiet"}, visible(plans[0].rates)));
}
