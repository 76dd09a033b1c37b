// How values are written, and how texts that came from elsewhere are shown.

const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/// As format_bytes() of engine/bytes.h writes them.
function formatBytes(bytes) {
  const sign = bytes < 0 ? "-" : "";
  let value = Math.abs(bytes);
  if (value < 1024) return `${sign}${value} B`;
  let unit = 0;
  while (value >= 1023.995 && unit + 1 < units.length) {
    value /= 1024;
    ++unit;
  }
  return `${sign}${value.toFixed(2)} ${units[unit]}`;
}

function formatGrowth(bytes) { return (bytes > 0 ? "+" : "") + formatBytes(bytes); }

function formatCount(count) { return Math.round(count).toString().replace(/\B(?=(\d{3})+$)/g, ","); }

function formatPercent(share) { return `${(100 * share).toFixed(1)} %`; }

/// "12.3 µs", "4.56 ms", "7.89 s", "3 min 05 s", "2 h 07 min"; the unit is that of the rounded value.
function formatSeconds(seconds) {
  if (!Number.isFinite(seconds)) return "-";
  if (seconds === 0) return "0 s";
  if (seconds < 0) return `-${formatSeconds(-seconds)}`;
  if (seconds < 999.5e-6) return `${(seconds * 1e6).toPrecision(3)} µs`;
  if (seconds < 999.5e-3) return `${(seconds * 1e3).toPrecision(3)} ms`;
  if (seconds < 59.995) return `${seconds.toFixed(2)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
  const minutes = Math.round(seconds / 60);
  return `${formatCount(Math.floor(minutes / 60))} h ${String(minutes % 60).padStart(2, "0")} min`;
}

/// Up to five digits, with an exponent where that is shorter.
function formatNumber(value) {
  if (!Number.isFinite(value)) return "not finite";
  if (Number.isInteger(value) && Math.abs(value) < 1e15)
    return value < 0 ? "-" + formatCount(-value) : formatCount(value);
  const size = Math.abs(value);
  if (size >= 1e6) return value.toExponential(3);
  if (size >= 1000) return formatCount(value);
  if (size >= 1e-3) return String(Number(value.toPrecision(5)));
  return value.toExponential(2);
}

// Controls, formats, ends of lines and paragraphs, and letters that are blank though Unicode has them as letters.
const hidden = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u115f\u1160\u180e\u2065\u2800\u3164\uffa0]/gu;

/// With characters written out that show nothing, or turn around what stands beside them.
function visible(text) {
  const written = (letter) => letter.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
  return String(text).replace(hidden, (letter) => `\u27e8U+${written(letter)}\u27e9`);
}

/// The same of a text of several lines, whose lines stay.
function visibleLines(text) { return String(text).split("\n").map(visible).join("\n"); }

/// Cut in the middle, where names of layers are alike.
function shortened(text, most = 60) {
  const shown = visible(text);
  if (shown.length <= most) return shown;
  const letters = Array.from(shown.length > 4 * most ? shown.slice(0, 2 * most) + shown.slice(-2 * most) : shown);
  if (letters.length <= most) return shown;
  const tail = Math.floor(most / 3);
  return `${letters.slice(0, most - tail - 1).join("")}…${letters.slice(letters.length - tail).join("")}`;
}

function counted(count, noun) { return `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`; }
