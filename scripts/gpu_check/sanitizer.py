"""compute-sanitizer: what it is asked, and what it answers."""
import re

CASES_PER_OP = 4  # of the cases of each op: a kernel takes up to a thousand times as long under it
FOUND = 99  # the exit code of its own that says so
REFUSALS = ("Device not supported", "Unable to find", "not supported on this", "Failed to initialize",
            "No attachable process found")


def command(machine, tool):
    """The words before the program. Kernels that are not ours are NVIDIA's to check; but what those write must be seen
    where initcheck asks whether ours read what was written. Calls by which libraries try what a device has may fail."""
    program = machine.tool("compute-sanitizer")
    words = [program, "--tool", tool, "--error-exitcode", str(FOUND), "--print-limit", "20"]
    options = machine.run(program, "--help", own=False, seconds=20).output
    if tool != "initcheck" and "--kernel-name" in options:
        words += ["--kernel-name", "kernel_substring=trainer"]
    if tool == "memcheck" and "--report-api-errors" in options:
        words += ["--report-api-errors", "no"]
    return words


def findings(output):
    """{"summary", "errors", "warnings"} of what one run said; None where the tool came to no end."""
    races = re.search(r"RACECHECK SUMMARY: (\d+) hazards? displayed \((\d+) errors?, (\d+) warnings?\)", output)
    if races:
        return {"summary": races[0], "errors": int(races[2]), "warnings": int(races[3])}
    errors = re.search(r"ERROR SUMMARY: (\d+) errors?", output)
    if errors:
        return {"summary": errors[0], "errors": int(errors[1]), "warnings": 0}
    return None


def refusal(output):
    """The line by which the tool tells that it cannot work here; empty where it did."""
    return next((line.strip("= ") for line in output.splitlines() if any(words in line for words in REFUSALS)), "")
