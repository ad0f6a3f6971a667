#include "tools/kvstrata/container/heat_map.h"

namespace kvstrata::tool {

namespace {

constexpr const char* before_data = R"html(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy"
      content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'">
<title>kvstrata codec compare</title>
<style>
  :root { color-scheme: light dark; font: 15px/1.45 system-ui, sans-serif; }
  body { margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
  h1 { font-size: 1.3rem; } h2 { font-size: 1.1rem; margin-top: 2.2rem; word-break: break-all; }
  h3 { font-size: 1rem; margin: 1.4rem 0 .3rem; }
  canvas { width: 100%; display: block; image-rendering: pixelated; cursor: crosshair; }
  .map { position: relative; } .scale { display: flex; gap: .6rem; align-items: center; }
  .scale canvas { width: 14rem; height: .8rem; }
  .note { color: color-mix(in srgb, currentColor 65%, transparent); }
  #tip { position: fixed; display: none; pointer-events: none; padding: .35rem .6rem;
         border-radius: .3rem; background: #222; color: #fff; font-size: .85rem;
         white-space: pre; z-index: 1; }
  table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
  td, th { padding: .1rem .7rem; text-align: right; } th { font-weight: 600; }
  td:first-child, th:first-child { text-align: left; padding-left: 0; }
  tbody tr:hover { background: color-mix(in srgb, currentColor 8%, transparent); }
  details { margin-top: 1rem; }
</style>
</head>
<body>
<h1>Bits a scalar, by layer and channel</h1>
<p class="note">Each square is one channel of one layer. <b>static</b>: what its table spends on it;
<b>entropy</b>: the first-order entropy of its own signs and exponents, and the mantissa as it is;
<b>loss</b>: static less entropy.</p>
<p><label>Show <select id="what">
  <option value="static">static</option><option value="entropy">entropy</option>
  <option value="loss">loss</option></select></label></p>
<div id="files"></div>
<div id="tip"></div>
<script type="application/json" id="data">)html";

constexpr const char* after_data = R"html(</script>
<script>
'use strict';
const files = JSON.parse(document.getElementById('data').textContent).files;
const tip = document.getElementById('tip');
const what = document.getElementById('what');
const stops = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
const make = (parent, name, text) => {
  const element = parent.appendChild(document.createElement(name));
  if (text !== undefined) element.textContent = text;
  return element;
};
function colour(share) {
  const at = Math.min(Math.max(share, 0), 0.9999) * (stops.length - 1), low = Math.floor(at);
  return stops[low].map((from, i) => Math.round(from + (stops[low + 1][i] - from) * (at - low)));
}
function values(map) {
  const has = map.static.length > 0;
  if (what.value === 'entropy' || !has) return map.entropy;
  if (what.value === 'static') return map.static;
  return map.static.map((bits, i) => bits - map.entropy[i]);
}
// The middle 99 %: one odd channel must not hide all others.
function range(maps) {
  const all = Int32Array.from(maps.flatMap(values)).sort();
  const low = all[Math.floor(all.length * 0.005)] ?? 0;
  const high = all[Math.ceil(all.length * 0.995) - 1] ?? 1;
  return [low, Math.max(high, low + 1)];
}
function paint(canvas, map, [low, high]) {
  const painter = canvas.getContext('2d');
  const image = painter.createImageData(map.channels, map.layers);
  values(map).forEach((bits, i) => {
    image.data.set([...colour((bits - low) / (high - low)), 255], 4 * i);
  });
  painter.putImageData(image, 0, 0);
}
const bits = thousandths => (thousandths / 1000).toFixed(2);
function show(event, canvas, map) {
  const box = canvas.getBoundingClientRect();
  const cell = (at, size, count) => Math.min(Math.max(Math.floor(at / size * count), 0), count - 1);
  const channel = cell(event.clientX - box.left, box.width, map.channels);
  const layer = cell(event.clientY - box.top, box.height, map.layers);
  const i = layer * map.channels + channel;
  const head = Math.floor(channel / map.head_dim), dim = channel % map.head_dim;
  tip.textContent = `${map.side}, layer ${layer}, head ${head}, dim ${dim}\n` +
    (map.static.length ? `static   ${bits(map.static[i])}\n` : '') +
    `entropy  ${bits(map.entropy[i])}`;
  tip.style.display = 'block';
  tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + 'px';
  tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8) + 'px';
}
const repaint = [];
function add_map(parent, map, peers) {
  make(parent, 'h3', `${map.side} of ${map.name}`);
  const canvas = make(parent, 'canvas');
  canvas.width = map.channels;
  canvas.height = map.layers;
  canvas.style.height = Math.min(Math.max(map.layers * 8, 24), 640) + 'px';
  canvas.addEventListener('mousemove', event => show(event, canvas, map));
  canvas.addEventListener('mouseleave', () => { tip.style.display = 'none'; });
  const scale = make(parent, 'div');
  scale.className = 'scale note';
  const low_text = make(scale, 'span'), bar = make(scale, 'canvas');
  const high_text = make(scale, 'span');
  make(scale, 'span', `layers 0–${map.layers - 1} downwards, channels 0–${map.channels - 1}`);
  bar.width = 256;
  bar.height = 1;
  repaint.push(() => {
    const [low, high] = range(peers);
    paint(canvas, map, [low, high]);
    low_text.textContent = bits(low);
    high_text.textContent = bits(high) + ' bits';
    const painter = bar.getContext('2d'), image = painter.createImageData(256, 1);
    for (let i = 0; i < 256; ++i) image.data.set([...colour(i / 255), 255], 4 * i);
    painter.putImageData(image, 0, 0);
  });
}
function add_rows(parent, rows) {
  const details = make(parent, 'details');
  make(details, 'summary', 'Figures of layers and tensors');
  const table = make(details, 'table'), head = make(make(table, 'thead'), 'tr');
  for (const title of ['what', 'layer', 'side', 'raw', 'static', 'entropy', 'ratio']) {
    make(head, 'th', title);
  }
  const body = make(table, 'tbody');
  for (const row of rows) {
    const line = make(body, 'tr');
    make(line, 'td', row.name);
    make(line, 'td', row.layer ?? '');
    make(line, 'td', row.side ?? '');
    for (const codec of ['raw', 'static', 'entropy']) make(line, 'td', row.bits[codec].toFixed(3));
    make(line, 'td', row.ratio.toFixed(3));
  }
}
for (const file of files) {
  const section = make(document.getElementById('files'), 'section');
  make(section, 'h2', file.path);
  const encoded = file.static_frame_bytes + file.table_bytes;
  make(section, 'p', `${file.raw_frame_bytes.toLocaleString()} bytes as raw frames, ` +
    `${encoded.toLocaleString()} as static ones with their tables: ` +
    `ratio ${(file.raw_frame_bytes / encoded).toFixed(3)}`);
  const maps = file.maps ?? [];
  if (maps.length === 0) make(section, 'p', 'It holds no K and V.').className = 'note';
  for (const map of maps) add_map(section, map, maps.filter(peer => peer.name === map.name));
  add_rows(section, file.rows);
}
const paint_all = () => repaint.forEach(work => work());
what.addEventListener('change', paint_all);
paint_all();
</script>
</body>
</html>
)html";

/// JSON that may stand in a script element: no "<" is left in it.
std::string harmless(const std::string& json) {
  std::string text;
  text.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace

std::string heat_map_page(const std::vector<Comparison>& comparisons) {
  return before_data + harmless(json_of(comparisons, true)) + after_data;
}

}  // namespace kvstrata::tool
