"""What a comparison found: each number beside what it should be and how far it may be off. Needs no PyTorch."""
import dataclasses
import math


@dataclasses.dataclass
class Finding:
    """One comparison. `share` is the deviation as a share of what is allowed: above 1 it failed."""
    name: str
    deviation: float
    share: float
    detail: str = ""

    @property
    def failed(self):
        return not self.share <= 1  # NaN fails


class Findings:
    """The comparisons of one case."""

    def __init__(self):
        self.all = []

    def close(self, name, measured, expected, allowed):
        """Numbers or arrays of one shape; `allowed` is an absolute deviation, one for all elements."""
        deviation = largest_deviation(measured, expected)
        share = 0.0 if deviation == 0 else deviation / allowed if allowed > 0 else math.inf
        detail = f"{deviation:.3g} off, {allowed:.3g} allowed"
        if isinstance(measured, (int, float)) and isinstance(expected, (int, float)):
            detail = f"{measured!r}, expected {expected!r} ± {allowed:.3g}"
        self.all.append(Finding(name, deviation, share, detail))

    def equal(self, name, measured, expected):
        same = measured == expected
        self.all.append(Finding(name, 0.0 if same else math.inf, 0.0 if same else math.inf,
                                "" if same else f"{shortened(measured)}, expected {shortened(expected)}"))

    def within(self, name, value, low, high):
        """low ≤ value ≤ high; the deviation is that from the middle."""
        middle, half = (low + high) / 2, (high - low) / 2
        self.close(name, float(value), middle, half)

    def holds(self, name, condition, detail=""):
        self.all.append(Finding(name, 0.0 if condition else math.inf, 0.0 if condition else math.inf,
                                "" if condition else detail or "does not hold"))

    def failed(self):
        return [finding for finding in self.all if finding.failed]

    def worst(self):
        return max(self.all, key=lambda finding: math.inf if math.isnan(finding.share) else finding.share, default=None)


def flat(value):
    """The numbers of nested lists, of an array or of a tensor, one after the other."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from flat(item)
    else:
        yield float(value)


def shape_of(value):
    if hasattr(value, "shape"):
        return tuple(value.shape)
    return (len(value), *shape_of(value[0])) if isinstance(value, (list, tuple)) and value else ()


def largest_deviation(measured, expected):
    """Infinite where the shapes differ; NaN where one number is NaN and the other is not."""
    if measured is None or expected is None or shape_of(measured) != shape_of(expected):
        return math.inf
    if hasattr(measured, "astype") and hasattr(expected, "astype"):  # arrays, which may be large
        different = ~((measured == expected).reshape(-1))  # infinities agree with themselves
        deviation = abs(measured.reshape(-1)[different].astype("f8") - expected.reshape(-1)[different].astype("f8"))
        return float(deviation.max()) if deviation.size else 0.0
    largest = 0.0
    for one, other in zip(flat(measured), flat(expected)):
        if one == other:
            continue
        deviation = abs(one - other)
        if math.isnan(deviation):
            return math.nan
        largest = max(largest, deviation)
    return largest


def shortened(value, most=200):
    text = repr(value)
    return text if len(text) <= most else text[:most] + "…"


@dataclasses.dataclass
class CaseResult:
    """A case is named PART:SEED:INDEX, from which it is made again."""
    name: str
    title: str
    findings: Findings
    error: str = ""  # where it could not be compared at all
    kept: str = ""   # the folder of a failure

    @property
    def failed(self):
        return bool(self.error) or bool(self.findings.failed()) or not self.findings.all


@dataclasses.dataclass
class PartResult:
    part: str
    cases: list
    seconds: float
    missing: list = dataclasses.field(default_factory=list)  # what the cases should have met and did not

    @property
    def num_failed(self):
        return sum(case.failed for case in self.cases)

    @property
    def failed(self):
        return self.num_failed > 0 or bool(self.missing) or not self.cases

    def worst(self):
        """(case, finding) nearest to or furthest beyond what is allowed."""
        found = [(case, case.findings.worst()) for case in self.cases if case.findings.all]
        return max(found, key=lambda pair: math.inf if math.isnan(pair[1].share) else pair[1].share, default=None)


def share_text(share):
    return "different" if math.isinf(share) else f"{share:.3f}"


def table(parts):
    """A row for each part, the columns as wide as they must be."""
    rows = [("part", "cases", "failed", "comparisons", "worst / allowed", "off by", "where", "time", "")]
    for part in parts:
        worst = part.worst()
        where = ("", "", "")
        if worst:
            case, finding = worst
            where = (share_text(finding.share), f"{finding.deviation:.2g}", f"{case.name} {finding.name}")
        rows.append((part.part, str(len(part.cases)), str(part.num_failed),
                     str(sum(len(case.findings.all) for case in part.cases)), *where, f"{part.seconds:.0f} s",
                     "FAILED" if part.failed else "passed"))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def failure_text(case, most=6):
    lines = [f"{case.name} ({case.title})"]
    if case.error:
        lines += ["  " + line for line in case.error.strip().splitlines()[-12:]]
    elif not case.findings.all:
        lines.append("  compared nothing")
    failed = case.findings.failed()
    lines += [f"  {finding.name}: {finding.detail}" for finding in failed[:most]]
    if len(failed) > most:
        lines.append(f"  and {len(failed) - most} more of {len(case.findings.all)} comparisons")
    if case.kept:
        lines.append(f"  kept in {case.kept}")
    return "\n".join(lines)


def as_json(parts):
    return {"parts": [{"part": part.part, "failed": part.failed, "seconds": part.seconds, "missing": part.missing, "cases": [
        {"case": case.name, "title": case.title, "failed": case.failed, "error": case.error, "kept": case.kept,
         "comparisons": len(case.findings.all),
         "failures": [dataclasses.asdict(finding) for finding in case.findings.failed()],
         "worst": dataclasses.asdict(case.findings.worst()) if case.findings.all else None}
        for case in part.cases]} for part in parts]}
