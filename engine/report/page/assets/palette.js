// Colours stand in page.css, for light and dark; here they become what canvases take.

const numLayerColours = 12;

function cssColour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

/// [red, green, blue] of "#rrggbb".
function parseColour(text) { return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16)); }

/// Of a pixel in ImageData, on machines with the lowest byte first.
function packedColour([red, green, blue]) { return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0; }

/// WCAG 2's relative luminance.
function luminance(rgb) {
  const [red, green, blue] = rgb.map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function mixed(rgb, other, share) { return rgb.map((value, i) => Math.round(value * (1 - share) + other[i] * share)); }

/// The colours of one theme. Of each colour of blocks there is a dim one, `dimmed` behind it.
class Palette {
  constructor() {
    this.background = parseColour(cssColour("--plot"));
    this.cached = parseColour(cssColour("--cached"));
    this.frame = cssColour("--frame");
    this.ink = cssColour("--ink");
    this.quiet = cssColour("--quiet");
    this.accent = cssColour("--accent");
    this.alarm = cssColour("--alarm");
    this.grid = cssColour("--grid");
  }

  /// {css, rgb, packed, dim, text} of each of "--NAME0", "--NAME1", ….
  series(name, count) {
    return Array.from({length: count}, (_, i) => {
      const css = cssColour(`--${name}${i}`), rgb = parseColour(css);
      return {
        css,
        rgb,
        packed: packedColour(rgb),
        dim: packedColour(mixed(rgb, this.cached, 0.8)),
        text: luminance(rgb) > 0.18 ? "#000000" : "#ffffff"
      };
    });
  }

  categories() { return this.series("category", 9); }
  phases() { return this.series("phase", 6); }
  layers() { return this.series("layer", numLayerColours); }
  curves() { return this.series("curve", 6); }
}

const themes = ["light", "dark"];

/// Light, dark, or as the system is, with whoever draws told of a change.
const theme = {
  listeners: [],
  chosen: "auto",
  system: matchMedia("(prefers-color-scheme: dark)"),
  isPrinted: false,
  get shown() {
    if (this.isPrinted) return "light";
    return themes.includes(this.chosen) ? this.chosen : this.system.matches ? "dark" : "light";
  },
  apply() {
    document.documentElement.dataset.theme = this.shown;
    for (const listener of this.listeners) listener();
  },
  next() {
    const order = ["auto", ...themes];
    this.chosen = order[(order.indexOf(this.chosen) + 1) % order.length];
    this.apply();
  },
  begin() {
    this.system.addEventListener("change", () => this.apply());
    const print = (isPrinted) => {
      this.isPrinted = isPrinted;
      this.apply();
    };
    addEventListener("beforeprint", () => print(true));
    addEventListener("afterprint", () => print(false));
    this.apply();
  },
};
