// Reads Note [Columns of a page] (engine/report/page/page_columns.h).

class Columns {
  constructor(bytes) { this.bytes = bytes; }

  /// Of a page; throws where the browser cannot unpack them.
  static async of(base64) {
    const text = base64.trim();
    if (text === "") return new Columns(new Uint8Array(0));
    if (typeof DecompressionStream === "undefined")
      throw new Error(
        "This browser cannot unpack the report's data: it lacks DecompressionStream, which Chrome and " +
        "Edge have from version 80, Firefox from 113 and Safari from 16.4 on.");
    const letters = atob(text);
    const packed = new Uint8Array(letters.length);
    for (let i = 0; i < letters.length; ++i) packed[i] = letters.charCodeAt(i);
    const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Columns(new Uint8Array(await new Response(unpacked).arrayBuffer()));
  }

  integers(column, Type = Float64Array) {
    const values = new Type(column.count);
    this.readIntegers(column.integers, values);
    return values;
  }

  readIntegers(at, values) {
    const bytes = this.bytes;
    let before = 0;
    for (let i = 0; i < values.length; ++i) {
      // Beyond 32 bits, which shifts do not reach.
      let code = 0, unit = 1, byte;
      do {
        byte = bytes[at++];
        code += (byte & 127) * unit;
        unit *= 128;
      } while (byte > 127);
      before += code % 2 === 0 ? code / 2 : -(code + 1) / 2;
      values[i] = before;
    }
    return at;
  }

  numbers(column) {
    const view = new DataView(this.bytes.buffer, this.bytes.byteOffset + column.numbers, 8 * column.count);
    const values = new Float64Array(column.count);
    for (let i = 0; i < values.length; ++i) values[i] = view.getFloat64(8 * i, true);
    return values;
  }

  texts(column) {
    const lengths = new Float64Array(column.count);
    let at = this.readIntegers(column.texts, lengths);
    const decoder = new TextDecoder();
    const texts = new Array(column.count);
    for (let i = 0; i < texts.length; ++i) {
      texts[i] = decoder.decode(this.bytes.subarray(at, at + lengths[i]));
      at += lengths[i];
    }
    return texts;
  }
}
