"""The folder that comes back: whenever the check is ended, what was finished by then lies in it, whole.

    summary.json    every part of every plan, with all it found; replaced after each part
    results.jsonl   a line for each result as it comes
    running.log     what the part that runs now has said so far
    logs.tar.xz     the parts' logs and the files they made, replaced after each part
    bench.json      the benchmark's figures, as it writes them
    bench_peer.log  what its other side has said, while it runs
"""
import io
import json
import os
import pathlib
import tarfile
import threading
import time
import zlib

LARGEST_FILE = 15 << 20
LARGEST_LOG = 1 << 20  # of a part, in the archive: of more its beginning and its end


def shortened(text, limit=LARGEST_LOG):
    """Bytes, with the middle left out of what is longer than the limit."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return text[:half] + f"\n[… {len(text) - 2 * half} bytes left out …]\n".encode() + text[-half:]


class Output:
    def __init__(self, folder, plan):
        self.folder, self.plan = pathlib.Path(folder), plan
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = threading.RLock()
        self._files = self._read_archive()
        self.summary = self._read_summary()
        self.running = self.folder / "running.log"
        self.running.write_bytes(b"")

    def path(self, name):
        return self.folder / name

    def start(self, head):
        """The plan's head; what it had found before, in an earlier call, is replaced."""
        self.summary[self.plan] = {**head, "parts": []}
        self._write_summary()

    def log(self, text):
        with self._lock, open(self.running, "ab") as file:
            file.write(text)

    def result(self, part, row):
        """One finding, at once."""
        line = json.dumps({"plan": self.plan, "part": part, **row})
        with self._lock, open(self.path("results.jsonl"), "a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())

    def keep(self, name, content):
        """A file that goes into the archive with the part's log."""
        with self._lock:
            self._files[f"{self.plan}/{name}"] = content

    def keep_log(self, path):
        """A log of a part in this folder, where there is one, moves into the archive."""
        if path.exists():
            self.keep(path.name, shortened(path.read_bytes()))
            path.unlink()

    def finish(self, row):
        """A part is over: its row, its log, and what it kept."""
        with self._lock:
            self.summary[self.plan]["parts"].append(row)
            self._write_summary()
            self.result(row["part"], {key: value for key, value in row.items() if key not in ("part", "details")})
            self._files[f"{self.plan}/{row['part']}.log"] = shortened(self.running.read_bytes())
            self._write_archive()
            self.running.write_bytes(b"")

    def close(self, seconds):
        with self._lock:
            self.summary[self.plan]["seconds"] = seconds
            self._write_summary()
            self.running.unlink(missing_ok=True)

    def _read_summary(self):
        path = self.path("summary.json")
        if not path.exists():
            return {}
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except ValueError:  # not ours: kept, and not written over
            path.replace(self.path("summary.unreadable.json"))
            return {}

    def _read_archive(self):
        path = self.path("logs.tar.xz")
        if not path.exists():
            return {}
        try:
            with tarfile.open(path, "r:xz") as archive:
                return {member.name: archive.extractfile(member).read() for member in archive if member.isfile()}
        except (tarfile.TarError, OSError, EOFError):
            path.replace(self.path("logs.unreadable.tar.xz"))
            return {}

    def _write_summary(self):
        self._replace("summary.json", (json.dumps(self.summary, indent=1) + "\n").encode())

    def _write_archive(self):
        left_out = []
        while True:
            content = self._packed()
            if len(content) <= LARGEST_FILE:
                break
            largest = max(self._files, key=lambda name: len(zlib.compress(self._files[name], 1)))
            left_out.append(f"{largest} ({len(self._files.pop(largest))} bytes)")
        if left_out:
            self.summary[self.plan].setdefault("left_out", []).extend(left_out)
            self._write_summary()
        self._replace("logs.tar.xz", content)

    def _packed(self):
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w:xz", preset=2) as archive:
            for name in sorted(self._files):
                member = tarfile.TarInfo(name)
                member.size, member.mtime = len(self._files[name]), int(time.time())
                archive.addfile(member, io.BytesIO(self._files[name]))
        return stream.getvalue()

    def _replace(self, name, content):
        fresh = self.path(f"{name}.new")
        with open(fresh, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self.path(name))
