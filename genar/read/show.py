"""What was found of sections, as lines to read."""

import shutil
from collections.abc import Sequence

from genar.read.report import SectionReport

SAID_WIDTH = 120  # where output goes to a file
SOURCES = ("counts", "from")
NUMBERS = ("spots", "genes", "library", "µm/px", "pitch", "tissue")


def lines(reports: Sequence[SectionReport]) -> str:
    """Return a line a section; where the terminal is narrow, without the columns that say where figures come from."""
    rows = [_row(report) for report in reports]
    rows.insert(0, {name: name for name in rows[0]})
    widths = {name: max(len(row[name]) for row in rows) for name in rows[0]}
    if sum(widths.values()) + len(widths) - 1 > shutil.get_terminal_size((SAID_WIDTH, 1)).columns:
        widths = {name: width for name, width in widths.items() if name not in SOURCES}
    text = (" ".join(row[name].rjust(w) if name in NUMBERS else row[name].ljust(w) for name, w in widths.items())
             for row in rows)  # fmt: skip
    return "\n".join(line.rstrip() for line in text)


def _row(report: SectionReport) -> dict[str, str]:
    """Return a section's line, by column."""

    def shown(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    source = (report.mpp_source or "-").partition(":")[0]
    measured, declared = shown(report.measured_pitch_um, ".0f"), shown(report.pitch_um, "g")
    matched = f" {report.match_rate:.0%}" if report.match_rate is not None and report.identifiers != "symbols" else ""
    return {
        "section": report.name,
        "patient": report.patient or "-",
        "spots": f"{report.spots:,}",
        "genes": f"{report.genes:,}",
        "library": shown(report.library_size, ",.0f"),
        "counts": report.counts_source or "-",
        "µm/px": shown(report.mpp, ".4g"),
        "from": source if len(source) <= 20 else f"{source[:19]}…",
        "pitch": "-" if report.pitch_um is None else f"{measured}/{declared}",
        "tissue": shown(report.on_tissue, ".0%"),
        "names": (report.identifiers or "-") + matched,
        "": "error" if report.errors else "warn" if report.warnings else "ok",
    }
