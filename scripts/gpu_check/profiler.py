"""ncu, one launch of bench_kernels at a time."""
import csv
import io

METRICS = {"dram__bytes.sum.per_second": "dram_bytes_per_second",
           "dram__throughput.avg.pct_of_peak_sustained_elapsed": "dram_percent_of_peak",
           "gpu__time_duration.sum": "nanoseconds"}
REFUSALS = ("Failed to initialize the profiler", "ERR_NVGPUCTRPERM", "No metrics to collect found", "not supported")


def command(machine):
    # --clock-control none: the clocks are not ours to set. base units: bytes a second, nanoseconds.
    return [machine.tool("ncu"), "--clock-control", "none", "--print-units", "base", "--csv", "--metrics",
            ",".join(METRICS)]


def kernels_of(text):
    """A row for each kernel that ncu saw, in order: {"kernel", and the metrics by our names}."""
    lines = text.splitlines()
    first = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if first is None:
        return []
    rows = {}
    for entry in csv.DictReader(io.StringIO("\n".join(line for line in lines[first:] if line.startswith('"')))):
        name = METRICS.get(entry.get("Metric Name"))
        if not name:
            continue
        row = rows.setdefault(entry["ID"], {"kernel": entry["Kernel Name"]})
        try:
            row[name] = float((entry["Metric Value"] or "").replace(",", ""))
        except ValueError:
            row[name] = None  # "n/a"
    return list(rows.values())


def refusal(output):
    return next((line.strip("= ") for line in output.splitlines() if any(words in line for words in REFUSALS)), "")
