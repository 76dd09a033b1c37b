// Puts the page together.

const keyTexts = [
  ["← → ↑ ↓", "move the map"],
  ["+ −", "zoom time"],
  ["> <", "zoom addresses"],
  ["0", "the whole step"],
  ["Shift ← →", "cursor to the op before or behind"],
  ["p", "cursor to the peak"],
  ["Enter", "choose the largest block at the cursor"],
  ["n N", "next, previous buffer that the search found"],
  ["/", "search"],
  ["Escape", "cursor back to the peak, nothing chosen"],
  ["?", "these keys"],
  ["t", "light, dark or as the system is"],
  ["Tab", "from part to part; Enter or Space presses and folds"],
];

function helpDialog() {
  const dialog = element(
    "dialog", {class: "help", "aria-label": "Keys"}, element("h2", {}, "Keys"),
    element("p", {class: "quiet"}, "Those above ? act on the map that has the focus; the first four also on curves."),
    element(
      "table", {class: "plain"},
      element(
        "tbody", {},
        keyTexts.map(
          ([key, text]) =>
            element("tr", {}, element("th", {scope: "row"}, element("kbd", {}, key)), element("td", {}, text))))),
    button("Close", () => dialog.close()));
  return dialog;
}

function pageHeader(report, dialog) {
  const themeButton = button("", () => {
    theme.next();
    show();
  }, {id: "theme", title: "Light, dark, or as the system is"});
  const show = () => (themeButton.textContent = `Theme: ${theme.chosen}`);
  show();
  return element(
    "header", {class: "page-head"},
    element(
      "h1", {},
      report.inputs.length === 1 ? named(inputTitle(report.inputs[0]), 70) :
                                   `${counted(report.inputs.length, "input")} compared`),
    element(
      "div", {class: "page-tools no-print"}, themeButton, button("Keys (?)", () => dialog.showModal(), {id: "keys"})));
}

function inputSection(report, input, columns, panels, isOne) {
  const plans = input.plans.map((at) => report.plans[at]);
  const isAlone = report.plans.length === 1;
  const parts = [inputHead(report, input)];
  if (input.run) parts.push(...runSections(input, plans, columns, isOne));
  if (isOne && !isAlone) parts.push(...comparedSections(report, columns, panels));
  if (plans.length === 1)
    parts.push(...planSections(report, plans[0], isAlone ? mapSection(report, plans[0], columns, panels) : null));
  else
    plans.forEach(
      (plan, i) => parts.push(element(
        "details", {class: "stage", open: i === 0},
        element(
          "summary", {},
          element(
            "h2", {}, "Stage ", named(plan.stage, 60), ` (peak ${formatBytes(plan.event.peak_reserved)} reserved)`)),
        planSections(report, plan, null))));
  parts.push(configSection(input));
  return element("article", {class: isOne ? "input only" : "input"}, parts);
}

/// Maps under each other go the same way.
function linkPanels(panels) {
  for (const panel of panels) panel.view.linked = panels.filter((other) => other !== panel).map((other) => other.view);
}

/// What tests and the curious may read; nothing in it changes anything.
function publish(report, panels) {
  const state = (panel) => ({
    x: [panel.view.x0, panel.view.x1],
    y: [panel.view.y0, panel.view.y1],
    cursor: panel.cursor,
    isPinned: panel.isPinned,
    moments: panel.data.numMoments,
    ops: panel.data.numOps,
    peak: panel.data.peak,
    selected: panel.selected < 0 ? null : panel.data.name(panel.selected),
    matches: panel.matchCount,
    matchBytes: panel.matchBytes,
    matchBytesAtPeak: panel.matchBytesNow,
    blocks: panel.data.numBlocks,
    colouring: panel.colouring,
    across: panel.timeMode,
    frames: panel.numFrames,
    allocated: panel.data.allocated[panel.cursor],
    reserved: panel.data.reserved[panel.cursor],
  });
  window.trainerReport = Object.freeze({
    get maps() { return panels.map(state); },
    get theme() { return theme.shown; },
    inputs: report.inputs.length,
    isReady: true,
  });
}

async function begin() {
  const place = document.getElementById("page");
  try {
    const report = JSON.parse(document.getElementById("report-data").textContent);
    const columns = await Columns.of(document.getElementById("report-columns").textContent);
    if (typeof Dygraph !== "undefined")
      Dygraph.PLUGINS = Dygraph.PLUGINS.filter((plugin) => plugin !== Dygraph.Plugins.Legend);
    theme.begin();
    const isOne = report.inputs.length === 1, panels = [], dialog = helpDialog();
    document.title = `${shortened(report.inputs.map((input) => inputTitle(input)).join(", "), 80)} - trainer report`;
    const compared = isOne ? [] : comparedSections(report, columns, panels);
    place.append(
      pageHeader(report, dialog),
      element("main", {}, compared, report.inputs.map((input) => inputSection(report, input, columns, panels, isOne))),
      element(
        "footer", {class: "quiet"},
        `Made by trainer ${visible(report.version)}. Sizes are in binary units; bytes by category and layer ` +
          "count whole blocks and add up to what is allocated."),
      dialog);
    linkPanels(panels);
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName))
        return;
      if (event.key === "?" && !dialog.open) dialog.showModal();
      if (event.key === "t") document.getElementById("theme").click();
    });
    openForPrint();
    publish(report, panels);
  } catch (problem) {
    place.append(element("p", {class: "problem"}, `The report cannot be shown: ${problem.message}`));
    throw problem;
  }
}

/// On paper nothing is folded.
function openForPrint() {
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details.section:not([open]), details.stage:not([open])")];
    for (const details of opened) details.open = true;
  });
  addEventListener("afterprint", () => {
    for (const details of opened) details.open = false;
  });
}

begin();
