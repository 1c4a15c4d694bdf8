"""`pegboard tape show --html`: one page that needs nothing else, with each run's time drawn."""

from collections.abc import Sequence
from html import escape
from typing import Final

from pegboard_tape.printing import clock, count, day, duration, one_line, safe
from pegboard_tape.timeline import Line, RunShown, title

_WIDTH: Final = 1000
_LABEL: Final = 290  # where the names end and the time begins
_ROW: Final = 22
_MAX_DETAIL: Final = 20_000

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1d2733; --dim: #687585; --line: #dfe4ea; --paper: #fbfcfd; --card: #fff;
  --model: #4169b8; --tool: #2f8f74; --bad: #c2452d; --ask: #b98711; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e9ef; --dim: #93a0ae; --line: #303a45; --paper: #14191f;
  --card: #1b2128; --model: #7d9fe6; --tool: #5cc0a2; --bad: #ee7b64; --ask: #e0b34a; } }
body { margin: 0 auto; max-width: 1040px; padding: 24px 20px 60px; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 20px; margin: 0 0 2px; } h2 { font-size: 16px; margin: 0 0 10px; }
p { margin: 0 0 18px; color: var(--dim); } section { background: var(--card); border: 1px solid var(--line);
  border-radius: 10px; padding: 16px 18px; margin: 0 0 18px; }
code, pre, svg text, .who, .at { font-family: ui-monospace, monospace; font-size: 12.5px; }
svg { width: 100%; height: auto; display: block; margin-bottom: 12px; } svg text { fill: var(--ink); }
svg .dim { fill: var(--dim); } svg line { stroke: var(--line); }
.model { fill: var(--model); } .tool { fill: var(--tool); } .bad { fill: var(--bad); } .ask { fill: var(--ask); }
ol { list-style: none; margin: 0; padding: 0; }
li { display: grid; grid-template-columns: 92px 110px 1fr auto; gap: 10px;
  padding: 5px 0; border-top: 1px solid var(--line); align-items: baseline; }
.at, .took { white-space: nowrap; } .at, .took, .outcome { color: var(--dim); }
.who { font-weight: 600; overflow-wrap: anywhere; }
.gone { text-decoration: line-through; opacity: .6; } summary { cursor: pointer; overflow-wrap: anywhere; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: 8px 0; max-height: 420px; overflow: auto; }
.error, .denied, .aborted, .indeterminate { color: var(--bad); } .pending { color: var(--ask); }
"""


def page(session: str, directory: str, runs: Sequence[RunShown]) -> str:
    """Return the page; everything from the record is escaped, and nothing in it runs or is fetched."""
    began = day(runs[0].began) if runs else ""
    told = " · ".join(part for part in (began, directory, count(len(runs), "run")) if part)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>Session {_text(session)}</title><style>{_STYLE}</style></head>\n<body>"
        f"<h1>Session <code>{_text(session)}</code></h1><p>{_text(told)}</p>\n"
        + "\n".join(_section(run) for run in runs)
        + "\n</body></html>\n"
    )


def _section(run: RunShown) -> str:
    lines = "".join(_item(line) for line in run.lines if line.text or line.kind == "tool")
    return (
        f"<section><h2>{_text(f'{title(run)} · {run.model}'.strip(' ·'))}</h2>{_drawing(run)}<ol>{lines}</ol></section>"
    )


def _item(line: Line) -> str:
    took = "" if line.ms is None else duration(line.ms)
    outcome = f" → {_text(line.outcome)}" if line.outcome else ""
    head = f'{_text(one_line(line.text, 400))}<span class="outcome {_text(line.status)}">{outcome}</span>'
    whole = line.detail if len(line.detail) > 400 or line.kind == "tool" or "\n" in line.detail else ""
    body = f"<details><summary>{head}</summary><pre>{_text(_shortened(whole))}</pre></details>" if whole else head
    gone = "" if line.counts else ' class="gone"'
    return (
        f'<li><span class="at">{clock(line.ts)}</span><span class="who">{_text(line.who)}</span>'
        f'<div{gone}>{body}</div><span class="took">{took}</span></li>'
    )


def _shortened(text: str) -> str:
    left = len(text) - _MAX_DETAIL
    return text if left <= 0 else f"{text[:_MAX_DETAIL]}\n… {left:,} more characters: pegboard tape export has them"


def _drawing(run: RunShown) -> str:
    """Draw when the model answered and each tool ran, one below the other."""
    bars = [(line, *_span(line)) for line in run.lines if line.ms is not None]
    if not bars:
        return ""
    end = max(run.ended, *(until for _, _, until in bars))
    whole = max(end - run.began, 0.001)
    height = _ROW * (len(bars) + 1) + 6
    scale = (_WIDTH - _LABEL - 70) / whole
    drawn = [_axis(whole, height)]
    for place, (line, start, until) in enumerate(bars):
        x = _LABEL + max(start - run.began, 0) * scale
        drawn.append(_bar(line, x, max((until - start) * scale, 2), _ROW * (place + 1)))
    head = f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="The time of run {run.number}">'
    return f"{head}{''.join(drawn)}</svg>"


def _span(line: Line) -> tuple[float, float]:
    """Return from when to when: a reply is recorded at its end, a call at its beginning."""
    seconds = (line.ms or 0.0) / 1000
    return (line.ts - seconds, line.ts) if line.kind == "model" else (line.ts, line.ts + seconds)


def _axis(whole: float, height: int) -> str:
    return "".join(_tick(part, whole, height) for part in (0, 0.25, 0.5, 0.75, 1))


def _tick(part: float, whole: float, height: int) -> str:
    x = _LABEL + part * (_WIDTH - _LABEL - 70)
    told = duration(whole * part * 1000) if part else "0"
    return (
        f'<line x1="{x:.1f}" y1="16" x2="{x:.1f}" y2="{height}"/>'
        f'<text class="dim" x="{x:.1f}" y="11" text-anchor="middle">{told}</text>'
    )


def _bar(line: Line, x: float, width: float, y: int) -> str:
    bad = line.kind == "tool" and line.status not in ("ok", "pending")
    colour = "bad" if bad else "ask" if line.status == "pending" else "model" if line.kind == "model" else "tool"
    name = one_line(f"{line.who}  {line.text}", 38)
    took = duration(line.ms or 0.0)
    return (
        f'<text x="0" y="{y + 14}">{_text(name)}</text>'
        f'<rect class="{colour}" x="{x:.1f}" y="{y + 3}" width="{width:.1f}" height="{_ROW - 7}" rx="3">'
        f"<title>{_text(one_line(line.outcome or line.text, 200))} · {took}</title></rect>"
        f'<text class="dim" x="{x + width + 6:.1f}" y="{y + 14}">{took}</text>'
    )


def _text(text: str) -> str:
    return escape(safe(text))
