"""How the report looks, by day and by night."""

from typing import Final

from graveler.demo.report_markup import Markup

__all__ = ["STYLE"]

STYLE: Final = Markup("""
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --ink: #18212d; --muted: #5d6876; --line: #e1e5ea;
  --main: #2456c8; --run: #8d99a8; --good: #16794c; --stop: #c02f26; --stop-soft: #fdf0ee;
  --new: #e0851b; --reused: #c3d0e6; --warn: #96690a;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #10141a; --card: #181e26; --ink: #e5e9ef; --muted: #97a3b2; --line: #2a323d;
    --main: #7ea5ff; --run: #78859a; --good: #51c893; --stop: #ff8176; --stop-soft: #2c1b1d;
    --new: #f2a740; --reused: #3a4b6a; --warn: #e2b64f;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; padding: 40px 24px 64px; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
}
main, header, footer { max-width: 1240px; margin: 0 auto; }
h1 { font-size: 28px; line-height: 1.2; margin: 0 0 6px; letter-spacing: -.01em; }
h2 { font-size: 18px; margin: 0 0 2px; }
p { margin: 0; max-width: 100ch; }
.lead, .note, footer { color: var(--muted); }
.lead { font-size: 16px; }
.note { font-size: 14px; margin-bottom: 14px; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 20px 22px; margin-top: 20px; }
.totals { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px;
  margin-top: 24px; }
.total { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 14px 16px; }
.total b { display: block; font-size: 26px; line-height: 1.15; font-weight: 650;
  font-variant-numeric: tabular-nums; }
.total span { color: var(--muted); font-size: 13px; }
.stopped-card { background: var(--stop-soft); border-left: 4px solid var(--stop); }
.stopped-card ul { margin: 8px 0; padding-left: 20px; }
.wide { overflow-x: auto; }
svg { display: block; }
svg text { fill: var(--muted); font-size: 11px; font-variant-numeric: tabular-nums; }
svg .date, svg .strong { fill: var(--ink); font-weight: 600; }
svg .stop-text { fill: var(--stop); font-weight: 600; }
.grid { stroke: var(--line); stroke-width: 1; }
.main-line { stroke: var(--main); stroke-width: 3; fill: none; stroke-linecap: round; }
.run-line { stroke: var(--run); stroke-width: 1.6; fill: none; }
.parked-line { stroke: var(--stop); stroke-width: 1.6; fill: none; stroke-dasharray: 2 5;
  stroke-linecap: round; }
.main-dot { fill: var(--main); stroke: var(--card); stroke-width: 2; }
.run-dot { fill: var(--card); stroke: var(--run); stroke-width: 1.8; }
.stop-dot { fill: var(--stop); stroke: var(--card); stroke-width: 2; }
.stop-cross { stroke: var(--card); stroke-width: 1.8; stroke-linecap: round; }
.again-dot { fill: var(--good); stroke: var(--card); stroke-width: 2; }
.again-line { stroke: var(--good); stroke-width: 1.6; fill: none; }
.new { fill: var(--new); }
.reused { fill: var(--reused); }
svg g:hover > .reused, svg g:hover > .new { filter: brightness(.85) saturate(1.3); }
.legend { display: flex; flex-wrap: wrap; gap: 6px 20px; font-size: 13px; color: var(--muted);
  margin-top: 12px; }
.legend i { display: inline-block; width: 11px; height: 11px; border-radius: 3px;
  margin-right: 7px; vertical-align: -1px; background: var(--run); }
.legend .l-main { background: var(--main); border-radius: 50%; }
.legend .l-run { background: var(--card); border: 2px solid var(--run); border-radius: 50%; }
.legend .l-stop { background: var(--stop); border-radius: 50%; }
.legend .l-again { background: var(--good); border-radius: 50%; }
.legend .l-new { background: var(--new); }
.legend .l-reused { background: var(--reused); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; font-size: 13px; font-weight: 600; color: var(--muted); }
th, td { padding: 6px 12px 6px 0; border-bottom: 1px solid var(--line); vertical-align: top;
  white-space: nowrap; }
th.n, td.n { text-align: right; }
td.gates { white-space: normal; min-width: 260px; }
td.gates small { display: block; color: var(--stop); font-size: 13px; }
td.gates small.warn { color: var(--warn); }
tr.stopped td { background: var(--stop-soft); }
tr.stopped td:first-child { box-shadow: inset 4px 0 0 var(--stop); padding-left: 12px; }
.state { font-weight: 600; color: var(--muted); }
.stopped .state { color: var(--stop); }
.again .state { color: var(--good); }
.mark { display: inline-block; width: 1.35em; text-align: center; color: var(--good); }
.mark.failed { color: var(--stop); font-weight: 700; }
.mark.warned { color: var(--warn); font-weight: 700; }
code { font: 13px/1.5 ui-monospace, SFMono-Regular, Menlo, "DejaVu Sans Mono", monospace; }
pre { margin: 8px 0 0; overflow-x: auto; }
footer { margin-top: 24px; font-size: 14px; }
""")
