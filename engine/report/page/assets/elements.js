// Elements are made here. What they hold is set as text: nothing of the data is ever read as markup.

/// A new element. Of `options`, `class`, `title` and the like are attributes, `on` are listeners by event, `style` are
/// properties. Children are elements, texts and lists of them; null is left out.
function element(tag, options = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on")
      for (const [event, listener] of Object.entries(value)) made.addEventListener(event, listener);
    else if (name === "style")
      for (const [property, setting] of Object.entries(value)) made.style.setProperty(property, setting);
    else
      made.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(3))
    if (child !== null && child !== undefined && child !== false)
      made.append(child instanceof Node ? child : document.createTextNode(String(child)));
  return made;
}

/// A text of the data, short, with the whole in its title where it was cut.
function named(text, most = 60) {
  const short = shortened(text, most), whole = visible(text);
  return element("bdi", {class: "name", title: short === whole ? null : whole}, short);
}

function button(label, listener, options = {}) {
  return element("button", {type: "button", ...options, on: {click: listener}}, label);
}

/// A choice of several: [[value, label]…].
function choice(label, entries, listener, chosen) {
  const select = element(
    "select", {on: {change: () => listener(select.value)}},
    entries.map(([value, text]) => element("option", {value, selected: value === chosen}, shortened(text, 48))));
  return element("label", {class: "choice"}, label, " ", select);
}

/// A part of the page that can be folded.
function section(title, options, ...children) {
  const {id, open = true} = options;
  return element(
    "details", {class: "section", id, open}, element("summary", {}, element("h2", {}, title)), ...children);
}

/// Facts as a list of terms; those without a value are left out.
function facts(pairs) {
  return element(
    "dl", {class: "facts"},
    pairs.filter(([, value]) => value !== null && value !== undefined && value !== "")
      .map(([term, value]) => element("div", {}, element("dt", {}, term), element("dd", {}, value))));
}

function paragraphs(text, className) {
  return text.split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => element("p", {class: className}, visible(line.trim())));
}

/// Once before the next frame, however often it is asked for.
function beforeNextFrame(work) {
  let isAsked = false;
  return () => {
    if (isAsked) return;
    isAsked = true;
    requestAnimationFrame(() => {
      isAsked = false;
      work();
    });
  };
}
