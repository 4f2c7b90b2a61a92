"""The look of a page: light and dark, as the reader's system is set, from 320 px on."""

from __future__ import annotations

from typing import Final

_LIGHT: Final = """
  color-scheme: light; --ink: #1d2733; --quiet: #5b6673; --line: #dfe4e9; --ground: #f5f7f8; --card: #ffffff;
  --link: #1f5f86; --pass: #1d7a46; --warn: #8f5b00; --fail: #b3261e;
  --pass-tint: #e6f4ec; --warn-tint: #fdf2dc; --fail-tint: #fbe9e7;
  --c0: #2a6f97; --c1: #d1495b; --c2: #3f8f5f; --c3: #b97f0a; --c4: #8d6a9f; --c5: #5c677d; --c6: #00838f;
  --c7: #a0603c;
"""
_DARK: Final = """
  color-scheme: dark; --ink: #e4e9ee; --quiet: #9aa7b4; --line: #2d3742; --ground: #12171d; --card: #1a2129;
  --link: #7cc0ea; --pass: #5fd08e; --warn: #f0b64a; --fail: #ff8a80;
  --pass-tint: #14291e; --warn-tint: #2e2413; --fail-tint: #341b1b;
  --c0: #6cb4e0; --c1: #f0808e; --c2: #74c694; --c3: #e8b44c; --c4: #c3a0d8; --c5: #a3aec2; --c6: #4dc6d2;
  --c7: #d99a74;
"""
STYLE: Final = (
    f":root {{ {_LIGHT} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {_DARK} }} }}\n"
    + """
* { box-sizing: border-box }
html { scroll-behavior: smooth; -webkit-text-size-adjust: 100% }
body { margin: 0; color: var(--ink); background: var(--ground); font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif }
main { max-width: 1080px; margin: 0 auto; padding: 32px 24px 72px }
a { color: var(--link) }
h1 { margin: 0; font-size: 25px; line-height: 1.25 }
h2 { margin: 40px 0 4px; font-size: 18px; scroll-margin-top: 12px }
p { margin: 4px 0 12px; color: var(--quiet); max-width: 78ch; overflow-wrap: anywhere }
nav { display: flex; flex-wrap: wrap; gap: 6px 16px; margin: 18px 0 0; font-size: 14px }
.card, .box { background: var(--card); border: 1px solid var(--line); border-radius: 8px }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin: 20px 0 }
.card { padding: 10px 14px }
.card b { display: block; font-size: 21px; font-variant-numeric: tabular-nums }
.card span { color: var(--quiet); font-size: 13px }
.verdict { margin: 20px 0 0; padding: 12px 16px; border-radius: 8px }
.verdict { border-left: 6px solid var(--tone); background: var(--tint) }
.verdict strong { color: var(--tone); font-size: 21px }
.verdict ul { list-style: none; margin: 8px 0 0; padding: 0 }
.verdict li { padding: 4px 0 4px 104px; text-indent: -104px; overflow-wrap: anywhere }
.verdict li > * { text-indent: 0 }
.verdict li b { display: inline-block; width: 104px }
.verdict details { margin-top: 6px; color: var(--quiet); font-size: 14px }
.pass { --tone: var(--pass); --tint: var(--pass-tint) } .warn { --tone: var(--warn); --tint: var(--warn-tint) }
.fail { --tone: var(--fail); --tint: var(--fail-tint) } li.pass, li.warn, li.fail { --ink: inherit }
li.warn b, li.fail b, li.pass b { color: var(--tone) }
.box { overflow-x: auto; margin: 12px 0 }
table { border-collapse: collapse; width: 100%; font-size: 13.5px }
th { text-align: left; font-weight: 600; color: var(--quiet); vertical-align: bottom }
thead { border-bottom: 1px solid var(--line) }
th, td { padding: 6px 10px }
tbody tr:nth-child(even) { background: var(--ground) }
td { overflow-wrap: anywhere; min-width: 5ch }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
td.time { white-space: nowrap; font-variant-numeric: tabular-nums }
footer { margin-top: 48px; color: var(--quiet); font-size: 13px; overflow-wrap: anywhere }
figure { margin: 0; padding: 10px 14px 8px }
figcaption { font-size: 13px; font-weight: 600; overflow-wrap: anywhere }
.legend { display: flex; flex-wrap: wrap; gap: 2px 14px; font-size: 12.5px; color: var(--quiet); margin: 2px 0 6px }
.legend i { display: inline-block; width: 14px; height: 3px; margin-right: 5px }
.legend i { vertical-align: middle; border-radius: 2px }
.plot { position: relative; margin: 12px 26px 20px 58px; height: 190px }
.plot svg { position: absolute; inset: 0; width: 100%; height: 100%; overflow: visible }
.plot path { fill: none; vector-effect: non-scaling-stroke; stroke-width: 1.5px; stroke-linejoin: round }
.plot .grid { stroke: var(--line); stroke-width: 1px }
.plot .dots { stroke-linecap: round; stroke-width: 4px }
.plot .dotted { stroke-dasharray: 2 3 } .plot .ring { stroke-linecap: round; stroke-width: 8px }
.plot .hole { stroke: var(--card); stroke-linecap: round; stroke-width: 5px }
.plot span { position: absolute; font-size: 11.5px; line-height: 1; color: var(--quiet); white-space: nowrap }
.plot .y { right: calc(100% + 6px); transform: translateY(-50%) }
.plot .x { top: calc(100% + 6px); transform: translateX(-50%) }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); gap: 0 12px }
.plots .plot { height: 140px }
"""
    + "".join(
        f".s{number} {{ stroke: var(--c{number}) }} i.s{number} {{ background: var(--c{number}) }}\n"
        for number in range(8)
    )
    + """
@media (max-width: 640px) {
  main { padding: 20px 12px 56px }
  h1 { font-size: 21px }
  .cards { grid-template-columns: 1fr 1fr; gap: 8px } .card b { font-size: 18px }
  .verdict li { padding-left: 0; text-indent: 0 } .verdict li b { display: block; width: auto }
  thead { display: none }
  table, tbody { display: block }
  tr { display: block; padding: 8px 12px }
  td, td.number { display: flex; justify-content: space-between; gap: 16px }
  td, td.number { padding: 1px 0; text-align: right; min-width: 0 }
  td::before { content: attr(data-of); color: var(--quiet); text-align: left; flex: 0 0 auto }
  td:first-child { font-weight: 600; text-align: left } td:first-child::before { content: none }
  .plot .x.even { display: none }
}
@media print { main { max-width: none } .box, .verdict { break-inside: avoid } }
"""
)
"""Of all pages."""
