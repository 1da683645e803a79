// The style and the script of the page of a plan.

#pragma once

#include <string_view>

namespace jobs {

// The unit of times in ActionsText, as a share of the step.
inline constexpr double kTimelineUnit = 1e-9;

// Beside plots::kPageStyle. Colors of parts are those of figures, never of
// text.
inline constexpr std::string_view kPlanStyle = R"css(
:root{--c0:#0072b2;--c1:#56a0d3;--c2:#8e6bbf;--c3:#7a8a99;--c4:#0f9d6b;--c5:#d55e00;--c6:#e69f00;--c7:#b8407e;
--c8:#a0522d;--c9:#d9c21f;--wait:#dfe3e7;--launch:#40464d;--mark:#d00000}
@media (prefers-color-scheme:dark){:root{--wait:#3a4149;--launch:#c3cad1;--mark:#ff7b72}}
h3{font-size:.95rem;margin:18px 0 6px}h4{font-size:.85rem;margin:10px 0 4px}
main{max-width:1240px}svg{min-width:0;overflow:visible}svg text{fill:var(--ink);font-size:11px}svg .t{fill:var(--soft)}
.legend{display:flex;flex-wrap:wrap;gap:2px 14px;margin:0 0 8px;padding:0;list-style:none;font-size:.8rem}
.legend svg{display:inline-block;width:12px;height:12px;min-width:12px;margin-right:5px;vertical-align:-1px}
.wide{overflow-x:auto}.wide>.time{min-width:640px}
.memory{display:grid;grid-template-columns:repeat(auto-fit,minmax(210px,1fr));gap:10px;align-items:end}
.memory h4,.rows h4{font-weight:600;overflow-wrap:anywhere;margin:4px 0 2px}.rows h4 span{font-weight:400;color:var(--soft)}
.bar{display:flex;flex-wrap:wrap;gap:6px;align-items:center;margin:0 0 6px}
button.tool,select{font:inherit;font-size:.85rem;color:var(--ink);background:var(--card);border:1px solid var(--soft);border-radius:6px;padding:2px 10px;cursor:pointer}
.said{min-height:1.5em;font-size:.85rem;color:var(--ink);margin:4px 0}
svg.time,svg.place{touch-action:pan-y}svg.time{cursor:crosshair}
:focus-visible{outline:2.5px solid var(--accent);outline-offset:2px}.place g:focus-visible{outline:0}.place g:focus rect.cell{stroke:var(--ink);stroke-width:2.5}
.place .cell{fill:var(--chip);stroke:var(--line)}.place .on text{fill:#000}
.place .ep .cell{fill:#f5d76e}.place .dp .cell{fill:#8fc1e8}.place .pp .cell{fill:#ffb38a}.place .cp .cell{fill:#b9d98c}.place .tp .cell{fill:#d9b3ee}.place .self .cell{fill:#fff;stroke:#000;stroke-width:2}
.knobs{display:grid;grid-template-columns:repeat(auto-fit,minmax(230px,1fr));gap:10px 24px;margin:8px 0 12px}
.knobs label{display:block;font-size:.875rem}.knobs input{width:100%;accent-color:var(--accent)}.knobs input[type=number]{font:inherit;color:var(--ink);background:var(--card);border:1px solid var(--soft);border-radius:6px;padding:2px 8px}
.knobs output{font-weight:650;font-variant-numeric:tabular-nums}details{margin:10px 0}summary{cursor:pointer;font-weight:600;font-size:.9rem}
@media print{.bar,.said,.knobs input{display:none}svg,.memory>div,.rows>div{break-inside:avoid}.wide{overflow:visible}.wide>.time{min-width:0}
svg *{print-color-adjust:exact;-webkit-print-color-adjust:exact}.memory{grid-template-columns:repeat(5,1fr)}}
)css";

// Draws the figures from the element "data" and lets one move in them. The
// numbers that tests read are in attributes data-v.
inline constexpr std::string_view kPlanScript = R"js(
(function(){'use strict';
const data=JSON.parse(document.getElementById('data').textContent);
const svgNames=new Set(['svg','g','rect','path','line','text','title','desc']);
function make(name,attributes,...children){
  const e=svgNames.has(name)?document.createElementNS('http://www.w3.org/2000/svg',name):document.createElement(name);
  for(const k in attributes||{})if(attributes[k]!==undefined)e.setAttribute(k,attributes[k]);
  e.append(...children);return e;}
function digits(x,n){return x===0?'0':Math.abs(x)>=1e4||Math.abs(x)<1e-3?x.toPrecision(n):String(+x.toPrecision(n));}
const label=kind=>kind.layout.replace(/-/g,'\u2011');  // it breaks at spaces alone
function time(s){return s===0?'0':s>=1?digits(s,4)+' s':s>=1e-3?digits(1e3*s,4)+' ms':digits(1e6*s,4)+' µs';}
const gb=b=>(b/1e9).toFixed(1)+' GB', percent=x=>(100*x).toFixed(1)+'%';
const memoryColors=['--c0','--c1','--c4','--c6','--c9','--c2','--c5','--c8','--c3','--c7'];
// What the report calls the parts of a step: groups of the figure and colors.
const parts=[['computation','--c0',['forward','backward','embedding, head, loss']],['recomputation','--c2',['recomputation']],
['optimizer','--c4',['optimizer']],['tensor links','--c5',['tensor-parallel communication']],['context links','--c6',['context-parallel ring']],
['expert links','--c9',["experts' all-to-alls"]],['data links','--c7',['data-parallel communication']],['pipeline links','--c8',['pipeline transfers']],
['bubble','--wait',['pipeline bubble']],['launches','--launch',['launch and bucket overhead']]];
const actions={f:['forward','--c1'],b:['backward','--c0'],r:['recomputation','--c2'],w:['gradients of weights','--c9'],s:['send or receive','--c8'],
q:['gradient reduction, gather','--c7'],o:['optimizer','--c4'],l:['launches','--launch'],z:['waiting (bubble)','--wait']};
function fill(color){return 'fill:var('+color+')';}
function legend(items){return make('ul',{class:'legend'},...items.map(([name,color,line])=>make('li',{},
  make('svg',{viewBox:'0 0 12 12','aria-hidden':'true'},line?make('path',{d:'M0 6h12',style:'stroke:var('+color+');stroke-width:2.5','stroke-dasharray':line}):make('rect',{width:12,height:12,style:fill(color)})),name)));}
function ticks(end,count){const raw=end/count,p=Math.pow(10,Math.floor(Math.log10(raw)));
  const step=[1,2,5,10].map(f=>f*p).find(x=>x>=raw*.999),all=[];for(let i=0;i*step<=end*1.0001;++i)all.push(i*step);return all;}
function partOf(kind,names){return names.reduce((sum,n)=>sum+(kind.parts[n]||0),0);}

function drawParts(framework){
  const most=Math.max(...framework.kinds.map(k=>k.step_time_s)),width=1000;
  return make('div',{class:'rows'},make('h3',{},'Step of the rank that ends last, by part'),
    legend(parts.filter(p=>framework.kinds.some(k=>partOf(k,p[2])>0)).map(p=>p.slice(0,2))),
    ...framework.kinds.map((kind,i)=>{
      const svg=make('svg',{viewBox:'0 0 '+width+' 18',role:'img',preserveAspectRatio:'none',style:'height:18px','aria-label':'step of '+kind.layout,'data-kind':i});
      let x=0;const said=[];
      for(const [name,color,names] of parts){const s=partOf(kind,names),w=s/most*width;if(s<=0)continue;
        said.push(name+' '+percent(s/kind.step_time_s));
        svg.append(make('rect',{x,width:w,height:18,style:fill(color),'data-part':name,'data-v':s},make('title',{},name+': '+time(s)+', '+percent(s/kind.step_time_s))));x+=w;}
      svg.setAttribute('aria-label',kind.layout+': '+said.join(', '));
      return make('div',{},make('h4',{},label(kind)+' ',make('span',{},time(kind.step_time_s)+', MFU '+percent(kind.mfu)+': '+said.slice().sort((a,b)=>parseFloat(b.match(/[\d.]+%/)[0])-parseFloat(a.match(/[\d.]+%/)[0])).slice(0,3).join(', '))),svg);}));}

function drawMemory(framework){
  const capacity=framework.capacity_bytes,allowed=framework.allowed_bytes,names=framework.memory;
  const band=framework.bands.peak_memory_bytes,best=framework.kinds[0].peak_memory_bytes;
  const top=1.06*Math.max(capacity,...framework.kinds.map(k=>band?k.peak_memory_bytes*band[1]/best:k.peak_memory_bytes));
  const W=230,H=230,left=34,bottom=22,y=b=>H-bottom-(H-bottom-6)*b/top;
  return make('div',{},make('h3',{},'Memory of a GPU of each pipeline stage'),
    legend([...names.map((n,i)=>[n,memoryColors[i]]),['free','--wait'],['limit of the GPU','--mark','0'],['with headroom','--mark','4 3'],...(band?[['peak in nine of ten cases','--ink','0']]:[])]),
    make('div',{class:'memory'},...framework.kinds.map((kind,i)=>{
      const svg=make('svg',{viewBox:'0 0 '+W+' '+H,role:'img','aria-label':'memory by stage of '+kind.layout+', peak '+gb(kind.peak_memory_bytes)+' of '+gb(capacity)});
      for(const t of ticks(top/1e9,5))svg.append(make('line',{x1:left,x2:W,y1:y(t*1e9),y2:y(t*1e9),style:'stroke:var(--line)'}),make('text',{x:left-5,y:y(t*1e9)+4,'text-anchor':'end',class:'t'},String(+t.toPrecision(3))));
      const n=kind.stages.length,step=(W-left-4)/n,w=Math.min(34,step*.78);let full=0;
      kind.stages.forEach((stage,s)=>{const x=left+2+step*(s+.5)-w/2;let sum=0;
        stage.memory.forEach((bytes,m)=>{if(bytes>0)svg.append(make('rect',{x,width:w,y:y(sum+bytes),height:y(sum)-y(sum+bytes),style:fill(memoryColors[m]),'data-stage':s,'data-v':bytes},make('title',{},'stage '+(s+1)+': '+names[m]+' '+gb(bytes))));sum+=bytes;});
        if(sum<capacity)svg.append(make('rect',{x,width:w,y:y(capacity),height:y(sum)-y(capacity),style:fill('--wait'),opacity:.55},make('title',{},'stage '+(s+1)+': '+gb(capacity-sum)+' free')));
        if(sum>kind.stages[full].memory.reduce((a,b)=>a+b,0))full=s;
        const every=Math.ceil(n/10);if(s%every===0)svg.append(make('text',{x:x+w/2,y:H-8,'text-anchor':'middle',class:'t'},String(s+1)));});
      for(const [at,dash] of [[capacity,'0'],[allowed,'4 3']])svg.append(make('line',{x1:left,x2:W,y1:y(at),y2:y(at),style:'stroke:var(--mark);stroke-width:1.5','stroke-dasharray':dash}));
      if(band){const x=left+2+step*(full+.5),low=y(kind.peak_memory_bytes*band[0]/best),high=y(kind.peak_memory_bytes*band[1]/best);
        svg.append(make('path',{d:'M'+x+' '+low+'V'+high+'M'+(x-5)+' '+low+'h10M'+(x-5)+' '+high+'h10',style:'stroke:var(--ink);stroke-width:1.6;fill:none'},make('title',{},'peak: '+gb(kind.peak_memory_bytes*band[0]/best)+' to '+gb(kind.peak_memory_bytes*band[1]/best))));}
      return make('div',{},make('h4',{},label(kind)),svg,make('p',{class:'small soft'},'peak '+gb(kind.peak_memory_bytes)+', '+percent(1-kind.peak_memory_bytes/capacity)+' free; stage, GB'));})));}

// The events of a stage: {kind, from, to, microbatch, chunk, critical}.
function eventsOf(kind){
  const unit=data.unit*kind.step_time_s;
  return kind.stages.map((stage,s)=>{
    const words=stage.actions.split(' '),list=[];
    for(let i=0;i<words.length;){const m=words[i].match(/^(\d+)\*(\d+)$/);if(!m){list.push(words[i++]);continue;}
      const some=words.slice(i+1,i+1+ +m[2]);for(let k=0;k<+m[1];++k)list.push(...some);i+=1+ +m[2];}
    const events=[],count={};let now=0;
    const add=(what,length,more)=>{if(length>0)events.push(Object.assign({what,from:now,to:now+length},more));now+=length;};
    for(const word of list){const critical=word[0]==='!',[action,wait,received]=word.slice(critical?1:0).split(',');
      const microbatch=count[action]=(count[action]===undefined?-1:count[action])+1,about={microbatch,chunk:+action.slice(1),critical};
      const [length,send,recompute]=stage.lengths[action],r=parseInt(received||'0',36)*unit;
      add('z',parseInt(wait||'0',36)*unit-r,{});add('s',r,{});
      add('r',recompute,about);add(action[0],length-recompute,about);add('s',send,{critical});}
    const [w,reduce,optimizer,gather,launches]=stage.after,last={critical:s===kind.critical_stage};
    add('z',w,{});add('q',reduce,last);add('o',optimizer,last);add('q',gather,last);add('l',launches,last);
    return events;});}
function say(kind,s,e){const name=actions[e.what][0];
  return kind.layout+', stage '+(s+1)+': '+name+(e.microbatch===undefined?'':' of microbatch '+(e.microbatch+1)+(kind.stages[s].lengths.f1?', chunk '+(e.chunk+1):''))+
  ', '+time(e.to-e.from)+' from '+time(e.from)+(e.critical?' (critical path)':'');}

function drawTimelines(framework){
  const most=Math.max(...framework.kinds.map(k=>k.step_time_s)),W=1000,left=26,said=make('p',{class:'said','aria-live':'polite'});
  let from=0,to=most;
  const all=framework.kinds.map((kind,index)=>{
    const events=eventsOf(kind),rows=events.length,row=rows>16?8:rows>8?11:17,H=rows*row+18;
    const svg=make('svg',{viewBox:'0 0 '+W+' '+H,class:'time',tabindex:0,role:'application','data-end':Math.max(...events.map(e=>e.length?e[e.length-1].to:0)),'data-events':events.reduce((n,e)=>n+e.length,0),
      'aria-label':'timeline of '+kind.layout+': arrow keys move over its events and stages, plus and minus zoom, 0 shows the whole step'});
    let cursor={s:0,i:0};
    const x=t=>left+(W-left)*(t-from)/(to-from);
    function draw(){
      const d={},marks=[];svg.replaceChildren();
      events.forEach((list,s)=>{
        const y=s*row;
        if(rows<=10||s%4===0&&s<rows-3||s===rows-1)svg.append(make('text',{x:left-6,y:y+row/2+4,'text-anchor':'end',class:'t'},String(s+1)));
        for(const e of list){if(e.to<from||e.from>to)continue;
          const a=Math.max(left,x(e.from)),b=Math.min(W,x(e.to)),gap=b-a>3?.6:0;
          (d[e.what]=d[e.what]||[]).push('M'+a.toFixed(1)+' '+(y+1)+'h'+(b-a-gap).toFixed(2)+'v'+(row-4)+'H'+a.toFixed(1)+'z');
          if(e.critical)marks.push('M'+a.toFixed(1)+' '+(y+row-1.6)+'H'+b.toFixed(1));}});
      for(const what in actions)if(d[what])svg.append(make('path',{d:d[what].join(''),style:fill(actions[what][1])}));
      svg.append(make('path',{d:marks.join(''),class:'critical',style:'stroke:var(--mark);stroke-width:2;fill:none'}));
      for(const t of ticks(to-from,8)){const at=x(from+t);if(at<W-12)svg.append(make('text',{x:at,y:H-4,'text-anchor':t===0?'start':'middle',class:'t'},time(from+t)));}
      const e=events[cursor.s][cursor.i];
      if(svg===document.activeElement&&e&&e.to>=from&&e.from<=to)svg.append(make('rect',{x:x(e.from),y:cursor.s*row,width:Math.max(2,x(e.to)-x(e.from)),height:row-1,style:'fill:none;stroke:var(--ink);stroke-width:2'}));}
    const at=(clientX,clientY)=>{const box=svg.getBoundingClientRect();
      return {t:from+((clientX-box.left)/box.width*W-left)/(W-left)*(to-from),s:Math.floor((clientY-box.top)/box.height*H/row)};};
    svg.addEventListener('pointermove',p=>{if(drag!==null){const moved=at(p.clientX,0).t-drag;view(from-moved,to-moved);return;}
      const {t,s}=at(p.clientX,p.clientY),e=events[s]&&events[s].find(e=>e.from<=t&&t<e.to);if(e)said.textContent=say(kind,s,e);});
    let drag=null;
    svg.addEventListener('pointerdown',p=>{drag=at(p.clientX,0).t;svg.setPointerCapture(p.pointerId);});
    for(const end of ['pointerup','pointercancel'])svg.addEventListener(end,()=>{drag=null;});
    svg.addEventListener('wheel',w=>{if(!w.ctrlKey)return;w.preventDefault();zoom(w.deltaY<0?.8:1.25,at(w.clientX,0).t);},{passive:false});
    svg.addEventListener('focus',()=>{draw();tell();});svg.addEventListener('blur',draw);
    function tell(){const e=events[cursor.s][cursor.i];if(e)said.textContent=say(kind,cursor.s,e);}
    svg.addEventListener('keydown',k=>{
      const now=events[cursor.s][cursor.i],middle=(now.from+now.to)/2;
      if(k.key==='ArrowRight')cursor.i=Math.min(cursor.i+1,events[cursor.s].length-1);
      else if(k.key==='ArrowLeft')cursor.i=Math.max(cursor.i-1,0);
      else if(k.key==='ArrowDown'||k.key==='ArrowUp'){cursor.s=Math.min(rows-1,Math.max(0,cursor.s+(k.key==='ArrowDown'?1:-1)));
        cursor.i=Math.max(0,events[cursor.s].findIndex(e=>e.to>middle));}
      else if(k.key==='+'||k.key==='=')zoom(.5,middle);else if(k.key==='-')zoom(2,middle);else if(k.key==='0')view(0,most);else return;
      k.preventDefault();const e=events[cursor.s][cursor.i];
      if(e.from<from||e.to>to){const half=(to-from)/2,c=Math.min(e.from+half*.9,Math.max(half,(e.from+e.to)/2));view(c-half,c+half);}else draw();tell();});
    return {kind,svg,draw};});
  function view(a,b){const length=Math.min(most,Math.max(most/2e4,b-a));a=Math.min(Math.max(0,a),most-length);from=a;to=a+length;for(const one of all)one.draw();}
  function zoom(factor,t){view(t-(t-from)*factor,t+(to-t)*factor);}
  const tool=(name,label,act)=>{const b=make('button',{class:'tool',type:'button','aria-label':label},name);b.addEventListener('click',act);return b;};
  const middle=()=>(from+to)/2,used=new Set(['f','b']);
  for(const one of all)for(const s of eventsOf(one.kind))for(const e of s)used.add(e.what);
  view(0,most);
  return make('div',{class:'rows'},make('h3',{},'The simulated step: one row for each stage'),
    legend([...Object.keys(actions).filter(a=>used.has(a)).map(a=>actions[a]),['critical path','--mark','0']]),
    make('div',{class:'bar'},tool('+','zoom in',()=>zoom(.5,middle())),tool('−','zoom out',()=>zoom(2,middle())),
      tool('‹','earlier',()=>view(from-(to-from)/3,to-(to-from)/3)),tool('›','later',()=>view(from+(to-from)/3,to+(to-from)/3)),
      tool('Whole step','show the whole step',()=>view(0,most)),make('span',{class:'small soft'},'drag, or Ctrl and wheel; all layouts have the same scale')),
    said,...all.map(one=>make('div',{},make('h4',{},label(one.kind)),make('div',{class:'wide'},one.svg))));}

const dimensions=[['tp','tensor','#d9b3ee'],['cp','context','#b9d98c'],['pp','pipeline','#ffb38a'],['ep','experts','#f5d76e'],['dp','data','#8fc1e8']];
function drawPlacement(framework){
  const shown=Math.min(framework.gpus,1024),per=framework.gpus_per_node,nodes=Math.ceil(shown/per);
  const wide=Math.min(nodes,shown>256?8:shown>64?4:per>8?1:4),cell=Math.max(8,Math.min(44,Math.floor((1000/wide-16)/Math.min(per,8)))),columns=Math.min(per,8);
  const high=Math.ceil(per/columns),size=[columns*cell+14,high*cell+(shown>256?14:26)],W=wide*size[0],H=Math.ceil(nodes/wide)*size[1];
  const said=make('p',{class:'said','aria-live':'polite'}),choice=make('select',{'aria-label':'layout whose placement is shown'},...framework.kinds.map((k,i)=>make('option',{value:i},k.layout)));
  const svg=make('svg',{viewBox:'0 0 '+W+' '+H,class:'place',role:'group','aria-label':'placement of ranks on GPUs',style:'width:min(100%,'+W+'px)'});
  let groups={};
  const members=(dimension,rank)=>{for(const [distances,firsts] of groups[dimension]||[])for(const first of firsts)if(distances.includes(rank-first))return distances.map(d=>d+first);return [];};
  const cells=[];
  for(let rank=0;rank<shown;++rank){const node=Math.floor(rank/per),i=rank%per;
    const x=node%wide*size[0]+i%columns*cell,y=Math.floor(node/wide)*size[1]+Math.floor(i/columns)*cell+(shown>256?2:14);
    if(i===0&&shown<=256)svg.append(make('text',{x,y:y-3,class:'t'},'node '+(node+1)));
    const g=make('g',{tabindex:rank?-1:0,role:'img','aria-label':'rank '+rank,'data-rank':rank},make('rect',{class:'cell',x:x+1,y:y+1,width:cell-2,height:cell-2,rx:2}));
    if(cell>=20)g.append(make('text',{x:x+cell/2,y:y+cell/2+4,'text-anchor':'middle','aria-hidden':'true'},String(rank)));
    g.addEventListener('pointerenter',()=>show(rank));g.addEventListener('focus',()=>show(rank));
    g.addEventListener('keydown',k=>{const step={ArrowRight:1,ArrowLeft:-1,ArrowDown:columns<per?columns:per,ArrowUp:columns<per?-columns:-per}[k.key],next=cells[rank+step];
      if(next){k.preventDefault();g.setAttribute('tabindex',-1);next.setAttribute('tabindex',0);next.focus();}});
    cells.push(g);svg.append(g);}
  function show(rank){
    const of={};let text='Rank '+rank+', GPU '+(rank%per+1)+' of node '+(Math.floor(rank/per)+1);
    for(const [key,name] of [...dimensions].reverse()){const some=members(key,rank);for(const r of some)of[r]=key;
      if(some.length)text+='; '+name+' ('+key+'): '+(some.length>12?some.length+' ranks':'with '+some.filter(r=>r!==rank).join(', '));}
    of[rank]='self';cells.forEach((c,r)=>c.setAttribute('class',of[r]?'on '+of[r]:''));cells[rank].setAttribute('aria-label',text);said.textContent=text;}
  function choose(){groups=framework.kinds[+choice.value].groups;show(0);}
  choice.addEventListener('change',choose);choose();
  return make('div',{},make('h3',{},'Placement: which rank is on which GPU'+(shown<framework.gpus?' (the first '+shown+' of '+framework.gpus+')':'')),
    make('ul',{class:'legend'},...dimensions.filter(d=>framework.kinds.some(k=>(k.groups[d[0]]||[]).length)).map(([key,name,color])=>make('li',{},make('svg',{viewBox:'0 0 12 12','aria-hidden':'true'},make('rect',{width:12,height:12,style:'fill:'+color})),'same '+name+' group ('+key+')'))),
    make('div',{class:'bar'},choice),said,make('div',{class:'wide'},svg));}

document.querySelectorAll('.framework').forEach((section,i)=>{const framework=data.frameworks[i],figures=section.querySelector('.figures');
  if(figures)figures.append(drawParts(framework),drawMemory(framework),drawTimelines(framework),drawPlacement(framework),drawNumbers(framework));});

function drawNumbers(framework){
  const table=(heads,rows)=>make('div',{class:'scroll'},make('table',{},make('thead',{},make('tr',{},...heads.map((h,i)=>make('th',{scope:'col',class:i?'n':undefined},h)))),
    make('tbody',{},...rows.map(row=>make('tr',{},...row.map((cell,i)=>i?make('td',{class:'n','data-v':cell},digits(cell,3)):make('td',{},cell)))))));
  const names=Object.keys(framework.kinds[0].parts);
  return make('details',{},make('summary',{},'Numbers of the figures'),make('h4',{},'Step of the rank that ends last, seconds'),
    table(['Layout',...names,'step'],framework.kinds.map(k=>[k.layout,...names.map(n=>k.parts[n]),k.step_time_s])),
    make('h4',{},'Memory of a GPU of each stage, GB'),
    table(['Layout','stage',...framework.memory,'all'],framework.kinds.flatMap(k=>k.stages.map((stage,s)=>[k.layout,s+1,...[...stage.memory,stage.memory.reduce((a,b)=>a+b,0)].map(b=>b/1e9)]))));}

function drawSteps(){
  const {axes,points,layouts}=data.grid,root=document.getElementById('steps'),at=axes.map(a=>a.present),table=make('table',{id:'answers'}),command=make('p',{class:'small soft'});
  const price=make('input',{type:'number',min:0,step:'any',value:data.per_gpu_hour||'',id:'price'});
  const indexOf=steps=>steps.reduce((index,step,a)=>index*axes[a].values.length+step,0),base=points[indexOf(at)];
  function show(){
    const point=points[indexOf(at)],gpus=point[0],hourly=parseFloat(price.value)||0;
    const head=['Framework','Fastest layout','Step (s)','Tokens/s','per GPU','MFU','Peak','Tokens/s, against the plan'].concat(hourly?['Step costs','1e9 tokens cost']:[]);
    table.replaceChildren(make('thead',{},make('tr',{},...head.map((h,i)=>make('th',{scope:'col',class:i>1?'n':undefined},h)))),make('tbody',{},...data.frameworks.map((f,i)=>{
      const one=point[1+i],cells=[[f.label],[one?layouts[one[0]]:gpus?'nothing fits':'not valid together']];
      if(one){const rate=gpus*one[4],was=base[1+i];
        cells.push([digits(one[1],4),one[1]],[digits(Math.round(rate),6),rate],[digits(Math.round(one[4]),6),one[4]],[percent(one[2]),one[2]],[gb(one[3]),one[3]],[was?'× '+(rate/(base[0]*was[4])).toFixed(2):'']);
        if(hourly){const cost=hourly*gpus*one[1]/3600;cells.push([digits(cost,4),cost],[digits(cost*1e9/(rate*one[1]),4),cost*1e9/(rate*one[1])]);}}
      while(cells.length<head.length)cells.push(['']);
      return make('tr',{},...cells.map(([text,value],c)=>make('td',{class:c>1?'n':undefined,'data-v':value},text)));})));
    const changed=axes.map((a,i)=>at[i]===a.present?'':' '+a.option+' '+a.values[at[i]]).join('');
    command.textContent=changed?'The same answer: oppa plan with'+changed:'As planned above.';}
  const recent=axes.map((_,a)=>a),inputs=[],tells=[];
  const knobs=axes.map((axis,a)=>{const out=make('output',{},''),input=make('input',{type:'range',min:0,max:axis.values.length-1,step:1,value:axis.present,'data-option':axis.option,'aria-label':axis.name});
    const tell=()=>{const text=axis.values[at[a]]+(axis.unit?' '+axis.unit:'');out.textContent=text;input.setAttribute('aria-valuetext',text);};
    input.addEventListener('input',()=>{at[a]=+input.value;recent.splice(recent.indexOf(a),1);recent.unshift(a);
      recent.filter(o=>at[o]!==axes[o].present).slice(data.grid.together).forEach(o=>{at[o]=axes[o].present;inputs[o].value=at[o];tells[o]();});tell();show();});
    inputs.push(input);tells.push(tell);tell();return make('label',{},axis.name+': ',out,input);});
  price.addEventListener('input',show);
  root.append(make('p',{class:'small soft'},'Every position is an answer of its own, the fastest layout of that job on that machine, computed when this page was written; nothing is interpolated.'+(data.grid.together<axes.length?' At most '+data.grid.together+' differ'+(data.grid.together===1?'s':'')+' from the plan at once; another returns to it.':'')+' Costs follow from the price and are exact at any price.'),
    make('div',{class:'knobs'},...knobs,make('label',{},'Price of a GPU hour: ',price)),make('div',{class:'scroll'},table),command);
  root.hidden=false;show();}
if(data.grid.points.length)drawSteps();
// Pages that are printed show everything.
addEventListener('beforeprint',()=>document.querySelectorAll('details').forEach(d=>{d.open=true;}));
})();
)js";

}  // namespace jobs
