"""The cases of a Catch2 program, each in a process of its own."""
import re

LONGEST_CASE = 60  # seconds


def list_cases(machine, program, tag=""):
    """Names of the cases, in the program's order. The program exits with their number."""
    result = machine.run(program, *([tag] if tag else []), "--list-test-names-only", seconds=30)
    names = [line for line in result.stdout.splitlines() if line.strip()]
    if not names or result.code not in (0, len(names), len(names) % 256, 255):
        raise RuntimeError(f"{program.name} does not list its cases: it {result.how()}")
    return names


def pattern(name):
    """What chooses that case alone: commas, brackets, quotes and stars are words of Catch2's language."""
    return re.sub(r'([\\,\["*])', r"\\\1", name)


def run_case(machine, program, name, before=(), seconds=LONGEST_CASE, **environment):
    """{"program", "case", "outcome": passed, failed or skipped, "seconds"}; with the end of what it said where it did
    not pass. `before` stands before the program: a tool that runs it."""
    result = machine.run(*before, program, pattern(name), seconds=seconds, cwd=machine.trainer.parent, **environment)
    row = {"program": program.name, "case": name, "outcome": "passed", "seconds": result.seconds}
    # A pattern that matches nothing is no test.
    if result.code != 0 or "No test cases matched" in result.output:
        row.update(outcome="failed", how=result.how(), output=result.output[-4000:])
    elif "SKIPPED" in result.output:
        reason = re.search(r"SKIPPED:? *(.*)", result.output)
        row.update(outcome="skipped", reason=reason[1][:300])
    return row, result


def run_cases(machine, part, cases, **options):
    """(rows, whether the time was over before all had run); each row is written when it is known."""
    rows = []
    for index, (program, name) in enumerate(cases):
        if machine.left() <= 0:
            return rows, True
        seconds = options.get("seconds", LONGEST_CASE)
        row, _ = run_case(machine, program, name, **{**options, "seconds": seconds})
        # One that the part's end has cut short says nothing of the case.
        if row["outcome"] == "failed" and row["how"].startswith("no end") and machine.left() <= 0 and \
                row["seconds"] < seconds - 1:
            return rows, True
        rows.append(row)
        machine.output.result(part, {"index": index, **{key: row[key] for key in row if key != "output"}})
    return rows, False


def describe(rows, total, late):
    """(status, text) of outcomes, of which a case that was skipped or not reached is none."""
    count = {outcome: [row for row in rows if row["outcome"] == outcome] for outcome in ("passed", "failed", "skipped")}
    text = f"{len(count['passed'])} of {total} cases pass"
    if count["failed"]:
        text += f"; {len(count['failed'])} failed: " + "; ".join(row["case"] for row in count["failed"][:5])
    if count["skipped"]:
        text += f"; {len(count['skipped'])} skipped: {count['skipped'][0]['reason'][:120]}"
    if late:
        text += f"; {total - len(rows)} not reached"
    status = "FAILED" if count["failed"] else "partly" if late else "passed"
    return status, text, count
