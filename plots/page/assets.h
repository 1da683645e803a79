// The style and the script of the result page.

#pragma once

#include <string_view>

namespace plots {

inline constexpr std::string_view kPageStyle = R"css(
:root{color-scheme:light dark;--bg:#fbfbfa;--card:#fff;--ink:#1c1e21;--soft:#5b616a;--line:#e2e4e7;
--accent:#0b6e8f;--ok:#0072b2;--early:#5d6b78;--oom:#c4510a;--fail:#a5366f;
--time:#8a6500;--good:#0f7a4f;--warn:#a34b00;--chip:#eef3f6}
@media (prefers-color-scheme:dark){:root{--bg:#14171a;--card:#1c2024;--ink:#eceff1;--soft:#a4adb6;--line:#31373d;
--accent:#5cc3e6;--ok:#56b4e9;--early:#9aa7b3;--oom:#f0883e;--fail:#e58bb8;
--time:#e0b93b;--good:#56c596;--warn:#f0a35e;--chip:#262d33}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",sans-serif}
main{max-width:1140px;margin:0 auto;padding:28px 20px 48px}
h1{font-size:1.65rem;line-height:1.2;margin:0 0 .25rem;letter-spacing:-.01em;overflow-wrap:anywhere}
h2{font-size:1.1rem;margin:0 0 .75rem}
p{margin:.35rem 0}.soft{color:var(--soft)}.small{font-size:.875rem}
header{display:flex;flex-wrap:wrap;gap:8px 20px;align-items:flex-start;justify-content:space-between;margin-bottom:22px}
.pill{display:inline-block;padding:3px 12px;border-radius:99px;border:1px solid var(--line);background:var(--card);font-size:.85rem;white-space:nowrap}
.pill.live{color:var(--good);border-color:currentColor}.pill.live:before{content:"";display:inline-block;width:8px;height:8px;border-radius:50%;background:currentColor;margin-right:7px}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(190px,1fr));gap:12px;margin-bottom:16px}
.card,section{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:16px 18px}
section{margin:0 0 16px;padding:18px 20px}
.card b{display:block;white-space:nowrap;font-size:1.45rem;line-height:1.25;font-weight:650;letter-spacing:-.01em;font-variant-numeric:tabular-nums}
.card small{font-size:.62em;font-weight:500;color:var(--soft);letter-spacing:0}.card span{display:block;color:var(--soft);font-size:.85rem}.card .name{font-size:.8rem;font-weight:600;margin-bottom:2px}
.card.lead b{color:var(--accent)}
.config{display:flex;flex-wrap:wrap;gap:6px;margin:0 0 12px;padding:0;list-style:none}
.config li{background:var(--chip);border-radius:6px;padding:2px 9px;font:.85rem/1.6 ui-monospace,SFMono-Regular,Menlo,"DejaVu Sans Mono",monospace}
.config li.moved{outline:1.5px solid var(--accent)}
pre{margin:0;padding:12px 14px;background:var(--chip);border-radius:8px;overflow-x:auto;font:.85rem/1.55 ui-monospace,SFMono-Regular,Menlo,"DejaVu Sans Mono",monospace;white-space:pre-wrap;overflow-wrap:anywhere}
.warn{border-left:4px solid var(--warn)}
figure{overflow-x:auto}svg{display:block;width:100%;min-width:640px;height:auto;border-radius:6px}
.o-completed{color:var(--ok)}.o-out_of_memory{color:var(--oom)}.o-failed{color:var(--fail)}.o-timed_out{color:var(--time)}.o-terminated_early{color:var(--early)}
.scroll{overflow-x:auto;margin:0 -20px;padding:0 20px}
table{border-collapse:collapse;width:100%;font-size:.875rem;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:7px 8px;border-bottom:1px solid var(--line);vertical-align:top}
th{font-weight:600;vertical-align:bottom}td.n,th.n{text-align:right;white-space:nowrap}
td.cfg{width:46%;font:.8rem/1.5 ui-monospace,SFMono-Regular,Menlo,"DejaVu Sans Mono",monospace;min-width:15rem;overflow-wrap:anywhere;white-space:pre-line}
td.best{background:color-mix(in srgb,var(--accent) 9%,transparent)}
td.best:first-child{box-shadow:inset 3px 0 0 var(--accent)}
th button{all:unset;display:inline-block;cursor:pointer;border-radius:4px}th button:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
th button:after{content:"\2195";opacity:.35;margin-left:3px;font-weight:400}
th[aria-sort=ascending] button:after{content:"\2191";opacity:1}th[aria-sort=descending] button:after{content:"\2193";opacity:1}
dl{display:grid;grid-template-columns:max-content 1fr;gap:4px 18px;margin:0;font-size:.875rem}dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
.copy{float:right;margin-top:-2px;font:inherit;font-size:.8rem;border:1px solid var(--line);background:var(--card);color:inherit;border-radius:6px;padding:2px 10px;cursor:pointer}
footer{color:var(--soft);font-size:.8rem}
@media (max-width:640px){main{padding:18px 12px 36px}h1{font-size:1.35rem}
.cards{grid-template-columns:1fr 1fr;gap:8px}.card{padding:12px}.card b{font-size:1.2rem}section{padding:14px}.scroll{margin:0 -14px;padding:0 14px}
td.cfg{min-width:23rem}dl{grid-template-columns:1fr}dd{margin-bottom:6px}}
@media print{:root{--bg:#fff;--card:#fff;--ink:#000;--soft:#444;--line:#ccc;--accent:#0b6e8f;--ok:#0072b2;
--early:#5d6b78;--oom:#c4510a;--fail:#a5366f;--time:#8a6500;--chip:#f3f3f3;color-scheme:light}
body{font-size:11pt}main{max-width:none;padding:0}.copy,.pill.live:before,th button:after{display:none}
.card,tr,figure{break-inside:avoid}section{border:0;border-top:1px solid #ccc;border-radius:0;padding:12px 0}.scroll{overflow:visible;margin:0;padding:0}
table{font-size:8pt}td.cfg{min-width:0}th,td{padding:3px 5px}th{white-space:normal}thead{display:table-header-group}}
figure{margin:0}
)css";

inline constexpr std::string_view kPageScript = R"js(
(function(){
var table=document.getElementById('trials');if(!table)return;
var body=table.tBodies[0],heads=[].slice.call(table.tHead.rows[0].cells);
function value(row,i){var c=row.cells[i],v=c.getAttribute('data-v');return v===null?c.textContent:(v===''?null:parseFloat(v));}
function sort(i,down){var rows=[].slice.call(body.rows);
rows.sort(function(a,b){var x=value(a,i),y=value(b,i);if(x===null)return y===null?0:1;if(y===null)return-1;
var d=typeof x==='number'?x-y:String(x).localeCompare(String(y));return down?-d:d;});
rows.forEach(function(r){body.appendChild(r);});
heads.forEach(function(h,j){h.setAttribute('aria-sort',j===i?(down?'descending':'ascending'):'none');});
try{sessionStorage.setItem('oppa-sort',i+','+(down?1:0));}catch(e){}}
heads.forEach(function(h,i){var b=document.createElement('button');b.type='button';b.textContent=h.textContent;h.replaceChildren(b);
h.setAttribute('aria-sort',i?'none':'ascending');b.addEventListener('click',function(){
var s=h.getAttribute('aria-sort');sort(i,s==='none'?h.classList.contains('n'):s==='ascending');});});
try{var s=sessionStorage.getItem('oppa-sort');if(s){s=s.split(',');sort(+s[0],s[1]==='1');}}catch(e){}
var copy=document.getElementById('copy');if(copy)copy.addEventListener('click',function(){
var t=document.getElementById('command').textContent;
if(navigator.clipboard)navigator.clipboard.writeText(t).then(function(){copy.textContent='Copied';});});
if(document.body.hasAttribute('data-live'))setTimeout(function(){location.reload();},4000);
})();
)js";

}  // namespace plots
