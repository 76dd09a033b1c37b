// What part of a map is seen: a window of time and addresses that is moved and zoomed within the whole. Views that are
// linked share the share of time that they see.

const smallestShare = 1e-6;

class MapView {
  constructor(onChange) {
    this.onChange = onChange;
    this.x0 = 0;
    this.x1 = 1;
    this.y0 = 0;
    this.y1 = 1;
    this.linked = [];
  }

  set(x0, x1, y0, y1) {
    [this.x0, this.x1] = MapView.within(x0, x1);
    [this.y0, this.y1] = MapView.within(y0, y1);
    this.onChange();
    for (const other of this.linked) {
      other.x0 = this.x0;
      other.x1 = this.x1;
      other.onChange();
    }
  }

  /// The window moved into 0 to 1, and not too small for the numbers in it.
  static within(begin, end) {
    const size = Math.min(1, Math.max(smallestShare, end - begin));
    const moved = Math.min(1 - size, Math.max(0, begin));
    return [moved, moved + size];
  }

  whole() { this.set(0, 1, 0, 1); }

  get isWhole() { return this.x0 === 0 && this.x1 === 1 && this.y0 === 0 && this.y1 === 1; }

  pan(x, y) {
    const width = this.x1 - this.x0, height = this.y1 - this.y0;
    this.set(this.x0 + x * width, this.x1 + x * width, this.y0 + y * height, this.y1 + y * height);
  }

  /// By a factor below 1 into, above 1 out of the point at that share of the window.
  zoom(factorX, factorY, atX = 0.5, atY = 0.5) {
    const x = this.x0 + atX * (this.x1 - this.x0), y = this.y0 + atY * (this.y1 - this.y0);
    this.set(
      x - (x - this.x0) * factorX, x + (this.x1 - x) * factorX, y - (y - this.y0) * factorY,
      y + (this.y1 - y) * factorY);
  }
}

/// Turns what is done with mouse, fingers and wheel over a canvas into movements of a view. `plot()` is the rectangle
/// of the canvas that the view fills; `movesY`: up and down, too; `on`: hover, leave and click at shares of the window.
function listenToPointers(canvas, view, plot, movesY, on) {
  const pointers = new Map();
  let start = null, moved = false, box = null;
  const shares = (event) => {
    const bounds = canvas.getBoundingClientRect(), area = plot();
    return [
      (event.clientX - bounds.left - area.left) / area.width, 1 - (event.clientY - bounds.top - area.top) / area.height
    ];
  };
  const spread = () => {
    const [first, second] = [...pointers.values()];
    return {
      x: (first[0] + second[0]) / 2,
      y: (first[1] + second[1]) / 2,
      width: Math.abs(first[0] - second[0]),
      height: Math.abs(first[1] - second[1])
    };
  };
  const factor = (before, after) => (before > 0.05 && after > 0.05 ? before / after : 1);

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    canvas.focus({preventScroll: true});
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, shares(event));
    start = shares(event);
    moved = false;
    box = event.shiftKey && pointers.size === 1 ? start : null;
  });
  canvas.addEventListener("pointermove", (event) => {
    const at = shares(event);
    if (!pointers.has(event.pointerId)) return on.hover(at[0], at[1]);
    const before = pointers.get(event.pointerId);
    if (pointers.size === 2) {
      const old = spread();
      pointers.set(event.pointerId, at);
      const now = spread();
      view.zoom(factor(old.width, now.width), movesY ? factor(old.height, now.height) : 1, now.x, now.y);
      view.pan(old.x - now.x, movesY ? old.y - now.y : 0);
      moved = true;
      return;
    }
    const area = plot();
    if (Math.hypot((at[0] - start[0]) * area.width, (at[1] - start[1]) * area.height) > 4) moved = true;
    if (!moved) return;
    if (box) return on.box(box, at);
    view.pan(before[0] - at[0], movesY ? before[1] - at[1] : 0);
    pointers.set(event.pointerId, at);
  });
  const end = (event) => {
    if (!pointers.delete(event.pointerId)) return;
    const at = shares(event);
    if (box) {
      on.box(null, null);
      if (moved && event.type === "pointerup") {
        const [x0, x1] = [box[0], at[0]].sort((a, b) => a - b), [y0, y1] = [box[1], at[1]].sort((a, b) => a - b);
        const width = view.x1 - view.x0, height = view.y1 - view.y0;
        view.set(
          view.x0 + x0 * width, view.x0 + x1 * width, movesY ? view.y0 + y0 * height : view.y0,
          movesY ? view.y0 + y1 * height : view.y1);
      }
      box = null;
    } else if (!moved && event.type === "pointerup") {
      on.click(at[0], at[1]);
    }
  };
  canvas.addEventListener("pointerup", end);
  canvas.addEventListener("pointercancel", end);
  canvas.addEventListener("pointerleave", () => on.leave());
  canvas.addEventListener("dblclick", () => view.whole());
  // The page scrolls over a map that was not chosen by a click or the keyboard; with Control it always zooms.
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && document.activeElement !== canvas) return;
    event.preventDefault();
    const [x, y] = shares(event);
    const amount = Math.exp(Math.max(-60, Math.min(60, event.deltaY || event.deltaX)) * (event.ctrlKey ? 0.01 : 0.003));
    const upright = event.shiftKey || event.ctrlKey;
    view.zoom(event.shiftKey ? 1 : amount, movesY && upright ? amount : 1, x, y);
  }, {passive: false});
}
