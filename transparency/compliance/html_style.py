"""How a report looks: one style sheet, for screens by day and by night, and for A4 paper. Nothing rests on colour."""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root{color-scheme:light dark;--paper:#fff;--ink:#1d232b;--soft:#5b6673;--line:#d9dee4;--wash:#f5f7f9;--accent:#274a78;
--pass:#4f8a6b;--warn:#c08a2d;--fail:#a3342f;--attest:#5c6fa8;--none:#b9c1ca}
@media (prefers-color-scheme:dark){:root{--paper:#15191e;--ink:#e4e8ed;--soft:#9aa5b1;--line:#323a44;--wash:#1d232a;
--accent:#9dbbe6;--pass:#6bb08c;--warn:#d9a84e;--fail:#e0756e;--attest:#8fa3de;--none:#56616d}}
*{box-sizing:border-box}
html{font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","Liberation Sans",Arial,sans-serif;
background:var(--paper);color:var(--ink);-webkit-text-size-adjust:100%}
body{max-width:68rem;margin:0 auto;padding:2.5rem 1.5rem 4rem}
h1,h2,h3{line-height:1.25;font-weight:600;text-wrap:balance}
h1{font-size:1.9rem;margin:0 0 .4rem;letter-spacing:-.01em}
h2{font-size:1.3rem;margin:3rem 0 .8rem;padding-top:.9rem;border-top:2px solid var(--ink)}
h3{font-size:1.05rem;margin:2rem 0 .4rem}
p{margin:.5rem 0;max-width:46rem}
a{color:var(--accent);text-underline-offset:.15em}
code{font:.86em/1.4 ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace;overflow-wrap:anywhere}
.kind{margin:0 0 .3rem;color:var(--accent);font-weight:600;letter-spacing:.08em;text-transform:uppercase;
font-size:.78rem}
.lead{font-size:1.05rem}
.soft,small{color:var(--soft)}
.honest{margin:1.4rem 0;padding:.7rem 1rem;border-left:4px solid var(--accent);background:var(--wash);max-width:none}
nav ol{display:flex;flex-wrap:wrap;gap:.2rem 1.4rem;list-style:none;margin:1rem 0;padding:0;font-size:.92rem}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));gap:0;margin:1.4rem 0;
border:1px solid var(--line);border-radius:4px;overflow:hidden}
.figures div{padding:.8rem 1rem;border-right:1px solid var(--line);border-bottom:1px solid var(--line);
margin:0 -1px -1px 0}
.figures dt{font-size:.82rem;color:var(--soft)}
.figures dd{margin:0;font-size:1.5rem;font-weight:600;font-variant-numeric:tabular-nums}
table{width:100%;border-collapse:collapse;margin:.8rem 0 1.2rem;font-size:.92rem;font-variant-numeric:tabular-nums}
caption{text-align:left;color:var(--soft);padding:0 0 .4rem;font-size:.86rem}
th,td{text-align:left;vertical-align:top;padding:.5rem .7rem .5rem 0;border-bottom:1px solid var(--line)}
thead th{font-size:.78rem;font-weight:600;color:var(--soft);border-bottom:1px solid var(--ink);white-space:nowrap}
td p{margin:.15rem 0}
.held{table-layout:fixed}.held td,.held th{white-space:normal;overflow-wrap:anywhere}
.held tr{break-inside:auto}
.events th:nth-child(2){width:10%}.events th:nth-child(3){width:20%}
.events th:nth-child(4){width:9%}.events th:nth-child(5){width:31%}
.id{white-space:nowrap;font-weight:600}
.wide .id{white-space:normal;width:7.5rem}
.wide .evidence{width:15rem}
.state{white-space:nowrap}
.checks{width:10.5rem}
.mark{display:inline-block;width:1.25em;font-weight:700}
.s-present .mark,.v-pass{color:var(--pass)}.s-partial .mark,.v-warn{color:var(--warn)}
.s-missing .mark,.v-fail{color:var(--fail)}.s-attest .mark,.v-attest{color:var(--attest)}
.s-none,.v-none{color:var(--soft)}
.s-missing,.s-partial,.s-attest,.s-present{font-weight:600}
.tag{display:inline-block;border:1px dashed var(--soft);border-radius:3px;padding:0 .4em;font-size:.76rem;
color:var(--soft);white-space:nowrap}
.chip{display:inline-block;white-space:nowrap;margin:0 .55em .1em 0;font-size:.86rem}
.overview th:not(:first-child),.count{text-align:right}
.overview thead th{white-space:normal;vertical-align:bottom}
.note{color:var(--soft);font-size:.87rem}
.on-paper{display:none;overflow-wrap:anywhere}
.strip{font:700 .82rem/1.5 ui-monospace,Menlo,Consolas,"Liberation Mono",monospace;letter-spacing:.06em;
overflow-wrap:anywhere}
.strip span{margin-right:.7em;white-space:nowrap}
ul.plain{list-style:none;padding:0;margin:.3rem 0}
ul.plain li{margin:.45rem 0}ul.plain li div{margin-left:1.3rem}
dl.facts{display:grid;grid-template-columns:minmax(8rem,max-content) 1fr;gap:.25rem 1.4rem;margin:.8rem 0}
dl.facts dt{color:var(--soft)}dl.facts dd{margin:0;overflow-wrap:anywhere}
svg{display:block;max-width:100%;height:auto}
svg text{font:11px system-ui,"Liberation Sans",Arial,sans-serif;fill:var(--soft)}
.bar{width:11rem;min-width:8rem}
.f-pass{fill:var(--pass)}.f-warn{fill:var(--warn)}.f-fail{fill:var(--fail)}.f-attest{fill:var(--attest)}
.f-none{fill:var(--none)}.hatch{stroke:var(--paper);stroke-width:1.6}.dot{fill:var(--paper)}
.axis{stroke:var(--line);stroke-width:1}.base{stroke:var(--ink);stroke-width:1}
figure{margin:1rem 0}figcaption{font-size:.86rem;color:var(--soft);margin-top:.3rem}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1.3rem;margin:.4rem 0;padding:0;list-style:none;font-size:.86rem}
.legend svg{display:inline-block;vertical-align:-.15em;margin-right:.45em}
footer{margin-top:3rem;padding-top:.8rem;border-top:1px solid var(--line);font-size:.86rem;color:var(--soft)}
@media (max-width:44rem){body{padding:1.2rem .9rem 3rem}table,tbody,tr,td{display:block}thead{display:none}
tr{border-bottom:1px solid var(--line);padding:.5rem 0}td,th{border:0;padding:.1rem 0;width:auto!important}
dl.facts{grid-template-columns:1fr}dl.facts dd{margin-bottom:.5rem}}
@page{size:A4;margin:16mm 14mm 18mm}
@media print{:root{--paper:#fff;--ink:#000;--soft:#444;--line:#bbb;--wash:#fff;--accent:#1b3556;--pass:#4f8a6b;
--warn:#c08a2d;--fail:#a3342f;--attest:#5c6fa8;--none:#b9c1ca}
html{font-size:9.5pt}body{max-width:none;padding:0}h2{break-after:avoid;margin-top:1.6rem}h3{break-after:avoid}
tr,figure,.figures,.honest,li{break-inside:avoid}thead{display:table-header-group}a{color:inherit;text-decoration:none}
svg{-webkit-print-color-adjust:exact;print-color-adjust:exact}nav{display:none}.on-paper{display:inline}
table,tbody{width:100%}}
"""
