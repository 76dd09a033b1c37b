"""Reads TensorBoard's event files and Prometheus' metrics by their formats alone: the standard library, nothing of trainer's
code or of the tools."""
import pathlib
import re
import struct

_TABLE = []
for _byte in range(256):
    for _ in range(8):
        _byte = (_byte >> 1) ^ (0x82F63B78 if _byte & 1 else 0)
    _TABLE.append(_byte)


def masked_crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    """Of a file; the last may be cut off."""
    while len(data) >= 12:
        (length, of_length) = struct.unpack_from("<QI", data)
        assert of_length == masked_crc32c(data[:8]), "the checksum of a length"
        if len(data) < length + 16:
            return
        body = data[12:12 + length]
        assert struct.unpack_from("<I", data, 12 + length)[0] == masked_crc32c(body), "the checksum of a record"
        yield body
        data = data[16 + length:]


def fields(message):
    """(number, value) of each: integers, floats of 4 and 8 bytes, bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        number, wire = divmod(varint(), 8)
        if wire == 0:
            yield number, varint()
        elif wire == 1:
            yield number, struct.unpack_from("<d", message, at)[0]
            at += 8
        elif wire == 5:
            yield number, struct.unpack_from("<f", message, at)[0]
            at += 4
        else:
            assert wire == 2, f"wire type {wire}"
            length = varint()
            assert at + length <= len(message)
            yield number, message[at:at + length]
            at += length


def event_files(folder):
    return sorted(path for path in pathlib.Path(folder).iterdir() if "tfevents" in path.name)


class Events:
    """What TensorBoard has of a folder: {tag: [(step, value)]} of scalars, texts and histograms, (min, max, num, sum,
    sum of squares, limits, counts); what a START takes back is gone."""

    def __init__(self, folder):
        self.scalars, self.texts, self.histograms, self.hparams = {}, {}, {}, {}
        self.times, self.starts = [], []
        for path in event_files(folder):
            for number, record in enumerate(records(path.read_bytes())):
                self._add(dict(fields(record)), number)

    def _add(self, event, number):
        step = event.get(2, 0)
        self.times.append(event[1])
        assert (event.get(3) == b"brain.Event:2") == (number == 0)
        if 7 in event:
            assert dict(fields(event[7])) == {1: 1}
            self.starts.append(step)
            for series in (self.scalars, self.texts, self.histograms):
                for tag in series:
                    series[tag] = [each for each in series[tag] if each[0] < step]
        for _, raw in fields(event.get(5, b"")):
            value = dict(fields(raw))
            tag = value[1].decode()
            plugin = dict(fields(dict(fields(value[9])).get(1, b""))) if 9 in value else {}
            if 2 in value:
                self.scalars.setdefault(tag, []).append((step, value[2]))
            elif 5 in value:
                histogram = dict(fields(value[5]))
                doubles = [struct.unpack(f"<{len(histogram.get(k, b'')) // 8}d", histogram.get(k, b"")) for k in (6, 7)]
                self.histograms.setdefault(tag, []).append((step, [histogram.get(k) for k in range(1, 6)] + doubles))
            elif plugin.get(1) == b"hparams":
                self.hparams.setdefault(tag, plugin[2])
            else:
                assert plugin.get(1) == b"text", plugin
                self.texts.setdefault(tag, []).append((step, dict(fields(value[8]))[8].decode()))

    def parameters(self):
        """{name: value} of the HPARAMS tab."""
        start = dict(fields(self.hparams["_hparams_/session_start_info"]))[3]
        result = {}
        for number, entry in fields(start):
            if number == 1:
                entry = dict(fields(entry))
                ((kind, value),) = fields(entry[2])
                result[entry[1].decode()] = {2: float, 3: lambda text: text.decode(), 4: bool}[kind](value)
        return result

    def has_succeeded(self):
        """None while there is no end."""
        end = self.hparams.get("_hparams_/session_end_info")
        return None if end is None else dict(fields(dict(fields(end))[4]))[1] == 1


_SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*",?)*)\} (\S+)$')
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')


def metrics(text):
    """{name: [(labels, value)]} of Prometheus' text format 0.0.4; fails where a line is neither comment nor sample, a sample has
    no type, or a family stands in two places."""
    assert text.endswith("\n")
    found, types = {}, {}
    for line in text[:-1].split("\n"):
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert kind in ("gauge", "counter") and name not in types and (kind == "counter") == name.endswith("_total"), line
            types[name] = kind
            last = name
        elif not line.startswith("# HELP "):
            sample = _SAMPLE.match(line)
            assert sample, repr(line)
            name, labels, value = sample.groups()
            assert name == last, line
            unescaped = {key: re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), quoted)
                         for key, quoted in _LABEL.findall(labels)}
            found.setdefault(name, []).append((unescaped, float(value)))
    assert set(found) == set(types)
    return found
