// A memory map as typed arrays: the step's moments, and rectangles of moments and bytes.

const noLayerName = "(no layer)";

class MemoryData {
  /// `map` as engine/report/page/page_plan.cpp writes it.
  constructor(map, plan, columns) {
    this.step = map.step;
    this.isEvaluation = map.evaluation;
    this.peak = map.peak;
    this.categories = plan.categories;
    this.phases = plan.phases;
    this.stackOrder = plan.stack;
    this.layers = [...columns.texts(map.layers), noLayerName];
    const moments = map.moments;
    this.ops = moments.ops;
    this.momentOp = columns.integers(moments.op, Int32Array);
    this.momentPhase = columns.integers(moments.phase, Uint8Array);
    this.momentLayer = this.withoutNone(columns.integers(moments.layer, Int32Array));
    this.momentSeconds = columns.numbers(moments.seconds);
    this.allocated = columns.integers(moments.allocated);
    this.reserved = columns.integers(moments.reserved);
    this.numMoments = this.allocated.length;
    this.countOps();
    this.mostReserved = this.reserved.reduce((a, b) => Math.max(a, b), 0);

    this.bufferName = columns.texts(map.buffers.name);
    this.bufferLayer = this.withoutNone(columns.integers(map.buffers.layer, Int32Array));
    this.bufferCategory = columns.integers(map.buffers.category, Uint8Array);
    this.bufferRequested = columns.integers(map.buffers.requested);
    this.bufferType = columns.integers(map.buffers.type, Int32Array);
    this.types = columns.texts(map.buffers.types);

    this.placeRanges(columns.integers(map.ranges));
    this.readBlocks(map.blocks, columns);
    this.readSegments(map.segments, columns);
    this.countLive();
    this.times = {op: Float64Array.from({length: this.numMoments + 1}, (_, i) => i), seconds: this.cumulativeSeconds()};
  }

  /// Moments stand between ops, too: ops are numbered from 1 by those that run. `opsBefore`: by moment, how many ran
  /// before it; `behindOp`: by op, the moment that follows it, that of 0 being the first.
  countOps() {
    this.opsBefore = new Int32Array(this.numMoments + 1);
    const behindOp = [0];
    for (let moment = 0; moment < this.numMoments; ++moment) {
      if (this.momentOp[moment] >= 0) behindOp.push(moment + 1);
      this.opsBefore[moment + 1] = behindOp.length - 1;
    }
    this.behindOp = Int32Array.from(behindOp);
    this.numOps = behindOp.length - 1;
  }

  withoutNone(layers) { return layers.map((layer) => (layer < 0 ? this.layers.length - 1 : layer)); }

  /// One above the other, with a gap between those that are apart.
  placeRanges(bytes) {
    const total = bytes.reduce((sum, value) => sum + value, 0);
    const numGaps = Math.max(1, bytes.length - 1);
    this.rangeGap = Math.min(total * 0.006, (total * 0.08) / numGaps);
    this.rangeBytes = bytes;
    this.rangeBegin = new Float64Array(bytes.length);
    let height = 0;
    for (let i = 0; i < bytes.length; ++i) {
      this.rangeBegin[i] = height;
      height += bytes[i] + (i + 1 < bytes.length ? this.rangeGap : 0);
    }
    this.height = Math.max(1, height);
  }

  /// The smallest first, so that a large block is drawn over what shares a pixel with it.
  readBlocks(blocks, columns) {
    const column = {};
    for (const name of ["buffer", "phase", "range", "offset", "bytes", "begin", "end"])
      column[name] = columns.integers(blocks[name]);
    const count = this.numBlocks = column.buffer.length;
    const order =
      Int32Array.from({length: count}, (_, i) => i).sort((a, b) => column.bytes[a] - column.bytes[b] || a - b);
    this.buffer = new Int32Array(count);
    this.phase = new Uint8Array(count);
    this.range = new Int32Array(count);
    this.offset = new Float64Array(count);
    this.bytes = new Float64Array(count);
    this.low = new Float64Array(count);
    this.high = new Float64Array(count);
    this.begin = new Int32Array(count);
    this.end = new Int32Array(count);
    this.layer = new Int32Array(count);
    this.category = new Uint8Array(count);
    for (let i = 0; i < count; ++i) {
      const from = order[i];
      const buffer = this.buffer[i] = column.buffer[from];
      this.phase[i] = column.phase[from];
      this.range[i] = column.range[from];
      this.offset[i] = column.offset[from];
      this.bytes[i] = column.bytes[from];
      this.low[i] = this.rangeBegin[column.range[from]] + column.offset[from];
      this.high[i] = this.low[i] + column.bytes[from];
      this.begin[i] = column.begin[from];
      this.end[i] = column.end[from];
      this.layer[i] = this.bufferLayer[buffer];
      this.category[i] = this.bufferCategory[buffer];
    }
    // Where they are drawn: what was there before begins with the step.
    this.first = this.begin.map((moment) => Math.max(0, moment));
    this.behind = this.end.map((moment) => (moment < 0 ? this.numMoments : moment));
  }

  readSegments(segments, columns) {
    const range = columns.integers(segments.range), offset = columns.integers(segments.offset);
    const bytes = columns.integers(segments.bytes);
    const begin = columns.integers(segments.begin), end = columns.integers(segments.end);
    this.segments = Array.from(range, (place, i) => {
      const low = this.rangeBegin[place] + offset[i];
      return {
        low,
        high: low + bytes[i],
        bytes: bytes[i],
        first: Math.max(0, begin[i]),
        behind: end[i] < 0 ? this.numMoments : end[i]
      };
    });
  }

  cumulativeSeconds() {
    const times = new Float64Array(this.numMoments + 1);
    for (let i = 0; i < this.numMoments; ++i) times[i + 1] = times[i] + this.momentSeconds[i];
    return times;
  }

  hasSeconds() { return this.times.seconds[this.numMoments] > 0; }

  isLive(block, moment) { return this.first[block] <= moment && moment < this.behind[block]; }

  name(block) { return this.bufferName[this.buffer[block]]; }
  layerName(block) { return this.layers[this.layer[block]]; }
  requested(block) { return this.bufferRequested[this.buffer[block]]; }
  type(block) { return this.types[this.bufferType[this.buffer[block]]]; }
  place(block) { return `segment ${this.range[block] + 1} + 0x${this.offset[block].toString(16)}`; }

  momentText(moment) {
    const op = this.momentOp[moment], before = this.opsBefore[moment];
    const what = op >= 0 ? `op ${formatCount(before + 1)}, ${this.ops[op]}` :
      before > 0 ? `after op ${formatCount(before)}` :
                   "before any op";
    return `${what}, ${this.phases[this.momentPhase[moment]]}`;
  }

  bornText(block) { return this.begin[block] < 0 ? "before the step" : this.momentText(this.begin[block]); }
  releasedText(block) {
    const end = this.end[block];
    if (end < 0) return "not in this step";
    if (end >= this.numMoments) return "at the end of the step";
    const before = this.opsBefore[end];
    return before > 0 ? `after ${this.momentText(this.behindOp[before] - 1)}` : "before any op";
  }

  /// Of the table of buffers: the op that a block is made for, and the last one that it lives through.
  fromOpText(moment) {
    if (moment < 0) return "before";
    const before = this.opsBefore[moment];
    if (moment < this.numMoments && this.momentOp[moment] >= 0) return formatCount(before + 1);
    return before > 0 ? `after ${formatCount(before)}` : "begin";
  }
  untilOpText(moment) {
    if (moment === Infinity) return "stays";
    const before = this.opsBefore[Math.min(moment, this.numMoments)];
    return before > 0 ? formatCount(before) : "begin";
  }

  /// By moment, how many blocks are live.
  countLive() {
    this.numLive = new Int32Array(this.numMoments + 1);
    for (let i = 0; i < this.numBlocks; ++i) {
      ++this.numLive[this.first[i]];
      --this.numLive[this.behind[i]];
    }
    for (let moment = 1; moment <= this.numMoments; ++moment) this.numLive[moment] += this.numLive[moment - 1];
  }

  /// What is live at a moment: sums by category and by layer, and the `most` largest blocks.
  liveAt(moment, most = 0) {
    const byCategory = new Float64Array(this.categories.length), byLayer = new Float64Array(this.layers.length);
    const {first, behind, bytes, category, layer} = this, largest = [];
    for (let i = this.numBlocks - 1; i >= 0; --i) {
      if (first[i] > moment || behind[i] <= moment) continue;
      byCategory[category[i]] += bytes[i];
      byLayer[layer[i]] += bytes[i];
      if (largest.length < most) largest.push(i);
    }
    return {byCategory, byLayer, largest};
  }

  /// Whether a block's buffer or layer has a text in its name, by block.
  matches(query) {
    const sought = query.toLowerCase();
    this.lowerNames ??= this.bufferName.map((name) => name.toLowerCase());
    this.lowerLayers ??= this.layers.map((name) => name.toLowerCase());
    const inName = this.lowerNames.map((name) => name.includes(sought));
    const inLayer = this.lowerLayers.map((name) => name.includes(sought));
    return Uint8Array.from(this.buffer, (buffer, i) => (inName[buffer] || inLayer[this.layer[i]] ? 1 : 0));
  }
}
