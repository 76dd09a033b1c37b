"""The recorder's conversion of a memory snapshot, without a GPU and without PyTorch."""
import gzip
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import record_allocator_trace as recorder  # noqa: E402

MIB = 1 << 20


def entry(action, address, size, stream=0):
    return {"action": action, "addr": address, "size": size, "stream": stream, "time_us": 0, "frames": []}


def snapshot_of(*entries):
    return {"segments": [], "device_traces": [[], list(entries)], "allocator_settings": {}}


HISTORY = (
    entry("segment_alloc", 0x7000, 2 * MIB),
    entry("alloc", 0x7000, 1000),
    entry("alloc", 0x7400, 5),
    entry("free_requested", 0x7000, 1000),
    entry("free_completed", 0x7000, 1000),
    entry("segment_alloc", 0x900000, 20 * MIB),
    entry("alloc", 0x900000, 3 * MIB),
    entry("alloc", 0x7000, 700),  # the address of a block that was freed
    entry("free_requested", 0x900000, 3 * MIB),
    entry("free_completed", 0x900000, 3 * MIB),
    entry("segment_free", 0x900000, 20 * MIB),
    entry("snapshot", 0, 0),
)


def sample(num_allocs, num_frees, allocated, reserved, segments):
    return {"num_allocs": num_allocs, "num_frees": num_frees, "allocated": allocated, "reserved": reserved,
            "segments": segments}


class Conversion(unittest.TestCase):
    def test_events_are_in_order_with_ids_for_addresses_and_running_sums(self):
        samples = [sample(0, 0, 0, 0, 0), sample(2, 0, 1536, 2 * MIB, 1), sample(4, 2, 1536, 2 * MIB, 1)]
        self.assertEqual(recorder.convert(snapshot_of(*HISTORY), samples), [
            ["alloc", 0, 1000, None, 2 * MIB, 1],
            ["alloc", 1, 5, 1536, 2 * MIB, 1],
            ["free", 0, 1000, None, 2 * MIB, 1],
            ["alloc", 3, 3 * MIB, None, 22 * MIB, 2],
            ["alloc", 4, 700, None, 22 * MIB, 2],
            ["free", 3, 3 * MIB, 1536, 22 * MIB, 2],
            ["release_cached", -1, 0, 1536, 2 * MIB, 1],
        ])

    def test_a_sample_before_the_cache_is_emptied_is_as_good_as_one_after_it(self):
        events = recorder.convert(snapshot_of(*HISTORY), [sample(4, 2, 1536, 22 * MIB, 2)])
        self.assertEqual(events[-2][3], 1536)

    def test_mapped_pages_are_reserved_but_no_segments_and_one_emptying_is_one_event(self):
        events = recorder.convert(snapshot_of(
            entry("segment_map", 0x100, 20 * MIB), entry("alloc", 0x100, 7), entry("segment_map", 0x900, 40 * MIB),
            entry("alloc", 0x900, 9), entry("free_requested", 0x100, 7), entry("free_completed", 0x100, 7),
            entry("segment_unmap", 0x100, 20 * MIB), entry("segment_unmap", 0x900, 20 * MIB)), [])
        self.assertEqual([event[0] for event in events], ["alloc", "alloc", "free", "release_cached"])
        self.assertEqual([event[4:] for event in events],
                         [[20 * MIB, 0], [60 * MIB, 0], [60 * MIB, 0], [20 * MIB, 0]])

    def refuses(self, words, *entries, samples=()):
        with self.assertRaisesRegex(recorder.TraceError, words):
            recorder.convert(snapshot_of(*entries), list(samples))

    def test_what_cannot_be_replayed_is_refused(self):
        self.refuses("gaps", entry("free_requested", 0x7000, 5))
        self.refuses("gaps", entry("alloc", 0x7000, 5), entry("alloc", 0x7000, 5))
        self.refuses("gaps", entry("segment_free", 0x7000, 5))
        self.refuses("streams", entry("alloc", 0x7000, 5), entry("alloc", 0x8000, 5, stream=3))
        self.refuses("out of memory", {"action": "oom", "device_free": 0, "size": 5, "stream": 0})
        self.refuses("unknown action", entry("resize", 0x7000, 5))
        self.refuses("0 devices", *())

    def test_a_sample_that_contradicts_the_history_is_refused(self):
        self.refuses("reserved", *HISTORY, samples=[sample(2, 0, 1536, 4 * MIB, 1)])
        self.refuses("reserved", *HISTORY, samples=[sample(2, 0, 1536, 2 * MIB, 2)])
        self.refuses("never was", *HISTORY, samples=[sample(2, 2, 0, 2 * MIB, 1)])

    def test_a_file_holds_the_whole_trace_and_is_the_same_every_time(self):
        trace = recorder.make_trace("mlp", False, 1 << 30, {"gpu": "none"}, snapshot_of(*HISTORY), [])
        with tempfile.TemporaryDirectory() as folder:
            paths = [pathlib.Path(folder) / name for name in ("a.json.gz", "b.json.gz")]
            for path in paths:
                recorder.write_trace(path, trace)
            self.assertEqual(*(path.read_bytes() for path in paths))
            with gzip.open(paths[0], "rt") as file:
                read = json.load(file)
        self.assertEqual(read, trace)
        self.assertEqual((read["format"], read["version"], read["capacity"]), ("allocator-trace", 1, 1 << 30))


if __name__ == "__main__":
    unittest.main()
