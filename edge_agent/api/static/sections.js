// The sections of the page, each a function from the agent's JSON to elements.

import { h } from './dom.js';
import { badge, detail, explained, isOff, mark, sentence, withCode } from './faults.js';
import { age, bytes, clip, clockTime, duration, fullTime, has, knows, number, percent, say } from './words.js';

const ENGINES = { tensorrt: 'TensorRT', onnxruntime: 'ONNX Runtime', python: 'Python' };
const LABELS_SHOWN = 4;
const BAD = /[._](down|died|hung|failed|damaged|full|gap|dead_letter|rejected|refused|denied|back|client_id_taken)$/;
const ODD = /\.(started_after_\w+|unsynced|jump|behind|safe_mode|precision_fell)$/;
const GOOD = /\.(up|ok|loaded|started|synced|promoted|built|installed)$/;

const list = (value) => (Array.isArray(value) ? value : []);
const empty = (word) => h('p', { class: 'empty' }, say(word));
const dots = (...texts) => texts.filter(Boolean).join(' · ');
const ms = (value) => `${number(value, value < 10 ? 1 : 0)} ms`;

// -- cameras ------------------------------------------------------------------------------------------------------------

export function cameras(listed, enlarged) {
  if (!listed.length) return empty('no_cameras');
  return listed.map((camera) => h(
    'article',
    { 'data-key': camera.name, class: enlarged.has(camera.name) ? 'camera large' : 'camera' },
    h('button', { type: 'button', class: 'picture', 'data-live': camera.name, 'data-key': 'picture' }),
    h('div', { class: 'title' }, mark(camera.state),
      h('h3', null, camera.title || camera.name, camera.title && h('span', { class: 'muted small' }, ' ', camera.name)), badge(camera)),
    camera.state !== 'ok' && explained(camera),
    h('dl', { class: 'numbers' },
      pair(say('fps_in'), fps(camera.fps_in)),
      pair(say('fps_inferred'), fps(camera.fps_inferred)),
      pair(say('frame_age'), has(camera.frame_age_s) ? age(camera.frame_age_s) : '–')),
    h('p', { class: 'muted small from' }, dots([].concat(camera.model || []).join(', '), camera.source)),
  ));
}

const fps = (value) => (has(value) ? number(value, 1) : '–');
const pair = (name, value) => h('div', null, h('dt', null, name), h('dd', null, value));

// -- models and parts ---------------------------------------------------------------------------------------------------

export function models(listed) {
  if (!listed.length) return h('li', { class: 'empty' }, say('no_models'));
  return listed.map((model) => {
    const versions = list(model.versions);
    const shown = versions.find((one) => one.state === 'ok') || versions.find((one) => !one.shadow && !isOff(one)) || versions[0];
    const others = versions.filter((one) => one !== shown && one.state !== 'ok');
    return row(model.name, model.name, model, shown ? engine(shown) : say('no_version'), [
      model.code && explained(model),
      shown && progress(shown),
      others.map((one) => h(
        'div', { class: 'other' }, h('p', { class: 'small' }, mark(one.state), ' ', engine(one)), explained(one), progress(one),
      )),
    ]);
  });
}

/** What runs a version, and whether its plan was checked. */
function engine(one) {
  const { precision, p50_ms: took } = one.plan || {};
  const checked = one.engine === 'tensorrt' && say(one.verified ? 'checked' : 'unchecked');
  return dots(say('version', one), ENGINES[one.engine] || one.engine, clip(precision || '', 20), checked, has(took) && ms(took));
}

/** How far its plan is, and its comparison with the version that serves. */
function progress({ build, shadow }) {
  return [
    build && knows(`build_${build.state}`) && bar(build.percent, 100, dots(
      say(`build_${build.state}`),
      build.percent > 0 && percent(build.percent / 100),
      has(build.eta_s) && say('left', { age: duration(build.eta_s) }),
      build.tries > 1 && say('try', { n: number(build.tries) }),
      clip(build.reason || '', 300),
    )),
    shadow && bar(shadow.compared, shadow.wanted, dots(
      say('compared', { n: number(shadow.compared), total: number(shadow.wanted) }),
      has(shadow.agreement) && say('agree', { share: percent(shadow.agreement) }),
      has(shadow.p95_ms) && say('p95', { time: ms(shadow.p95_ms), other: ms(shadow.serving_p95_ms) }),
      shadow.errors > 0 && say('some_errors', { n: number(shadow.errors) }),
      shadow.paused && say(shadow.paused === 'too hot' ? 'too_hot' : 'paused'),
    )),
  ];
}

const bar = (value, max, text) => h('p', { class: 'muted small' }, text, h('progress', { value, max, 'aria-label': text }));

export function parts(status) {
  const hosts = list(status.engine_hosts).map((one) => row(`host/${one.name}`, [say('one_engine_host'), ' ', one.name], one, hostNote(one), why(one)));
  const sinks = list(status.sync).map((one) => row(`sync/${one.name}`, [say('one_sync'), ' ', one.name], one, '', why(one)));
  const single = [['mqtt', mqttNote], ['store', storeNote], ['clock', clockNote], ['access', null], ['uplink', null]]
    .filter(([name]) => status[name])
    .map(([name, note]) => row(name, say(`one_${name}`), status[name], note && !isOff(status[name]) ? note(status[name]) : '', why(status[name])));
  return [...hosts, ...single.slice(0, 2), ...sinks, ...single.slice(2)];
}

const why = (part) => part.state !== 'ok' && part.code && explained(part, false);

function row(key, name, part, note, more = null) {
  return h(
    'li',
    { 'data-key': key, class: isOff(part) ? 'part is-off' : 'part' },
    mark(part.state),
    h('div', { class: 'about' },
      h('p', { class: 'name' }, h('strong', null, name), badge(part)), note && h('p', { class: 'muted small' }, note), more),
  );
}

function hostNote(host) {
  const restarts = host.restarts || 0;
  return dots(
    list(host.models).join(', '),
    host.pid && say('pid', { pid: host.pid }),
    restarts && (restarts === 1 ? say('restart') : say('restarts', { n: number(restarts) })),
  );
}

function mqttNote(mqtt) {
  const counters = mqtt.counters || {};
  const dropped = sum(counters, (name) => name.endsWith('dropped'));
  return dots(
    mqtt.protocol && `MQTT ${mqtt.protocol}`,
    has(counters.answers_sent) && say('answers', { n: number(counters.answers_sent) }),
    counters.answers_waiting && say('waiting', { n: number(counters.answers_waiting) }),
    dropped && say('dropped', { n: number(dropped) }),
  );
}

function storeNote(store) {
  const dropped = sum(store, (name) => name.startsWith('dropped_'));
  const waiting = sum(store.queue || {}, () => true);
  return dots(
    has(store.bytes) && bytes(store.bytes + (store.wal_bytes || 0)),
    has(store.rows_written) && say('rows', { n: number(store.rows_written) }),
    has(store.last_commit_ms) && say('commit', { ms: number(store.last_commit_ms, 1) }),
    waiting && say('waiting', { n: number(waiting) }),
    dropped && say('dropped', { n: number(dropped) }),
  );
}

function clockNote(clock) {
  return dots(clock.synced && say('synced'), clock.now && clockTime(clock.now));
}

function sum(counters, wanted) {
  return Object.entries(counters).reduce((total, [name, value]) => (has(value) && wanted(name) ? total + value : total), 0);
}

// -- device -------------------------------------------------------------------------------------------------------------

export function device(status) {
  const values = status.device || {};
  const agent = status.agent || {};
  const arena = agent.arena || {};
  const total = values.memory_total_bytes;
  const used = has(total) && has(values.memory_available_bytes) && total - values.memory_available_bytes;
  return [
    fact('board', values.board && dots(values.board, values.l4t && `L4T ${values.l4t}`, values.jetpack && `JetPack ${values.jetpack}`)),
    fact('temperature', temperatures(values.temperatures_c)),
    fact('cpu', has(values.cpu_load) && percent(values.cpu_load), values.cpu_load),
    fact('gpu', has(values.gpu_load) && percent(values.gpu_load), values.gpu_load),
    fact('memory', has(used) && say('used_of', { used: bytes(used), total: bytes(total) }), used / total),
    fact('disk', disk(values), 1 - values.disk_free_bytes / values.disk_total_bytes),
    fact('power', has(values.power_total_w) && `${number(values.power_total_w, 1)} W`),
    values.fan && fact('fan', dots(has(values.fan.duty) && percent(values.fan.duty), has(values.fan.rpm) && `${number(values.fan.rpm)} rpm`)),
    fact('uptime', has(values.uptime_s) && duration(values.uptime_s)),
    fact('agent_memory', has(agent.rss_bytes) && bytes(agent.rss_bytes)),
    arena.bytes_max && fact('tensors', say('used_of', { used: bytes(arena.bytes_used), total: bytes(arena.bytes_max) }), arena.bytes_used / arena.bytes_max),
    fact('loop_lag', has(agent.loop_lag_p99_ms) && ms(agent.loop_lag_p99_ms)),
  ];
}

function fact(word, text, share = null) {
  const meter = text && has(share) && h('meter', { min: 0, max: 1, high: 0.9, optimum: 0, value: share.toFixed(3), 'aria-label': say(word) });
  return h('div', { 'data-key': word }, h('dt', null, say(word)), h('dd', text ? null : { class: 'muted' }, text || say('unknown'), meter));
}

function temperatures(zones) {
  const warmest = Object.entries(zones || {}).filter(([, value]) => has(value)).sort(([, a], [, b]) => b - a).slice(0, 4);
  return warmest.length > 0 && warmest.map(([zone, value], index) => (index
    ? h('span', { class: 'muted small' }, ` · ${zone} ${number(value, 0)}`)
    : h('span', null, `${number(value, 1)} °C `, h('span', { class: 'muted small' }, zone))));
}

function disk(values) {
  if (!has(values.disk_free_bytes) || !has(values.disk_total_bytes)) return null;
  return say('free', { free: bytes(values.disk_free_bytes), total: bytes(values.disk_total_bytes) });
}

// -- results and events -------------------------------------------------------------------------------------------------

/** `rows` is null until they came. */
export function results(rows, error) {
  if (error) return h('p', { class: 'empty' }, say('not_readable', { text: error }));
  if (!rows) return null;
  if (!rows.length) return empty('no_results');
  const head = ['time', 'source', 'seen', 'latency'].map((word) => h('th', { role: 'columnheader', scope: 'col', class: word }, say(word)));
  return h(
    'table',
    { role: 'table', class: 'results', 'aria-labelledby': 'h-results' },
    h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, head)),
    h('tbody', { role: 'rowgroup' }, rows.map((result) => h(
      'tr',
      { 'data-key': result.uid || result.seq, role: 'row' },
      cell('time', moment(result.captured_at, result.clock_synced === false)),
      cell('source', [result.source, ' ', h('span', { class: 'muted' }, result.model)]),
      cell('seen', seen(list(result.objects))),
      cell('latency', has(result.latency_us) ? ms(result.latency_us / 1000) : '–'),
    ))),
  );
}

const cell = (name, content) => h('td', { role: 'cell', class: name }, content);

function moment(at, unsure) {
  const when = h('time', { datetime: at, title: fullTime(at) }, clockTime(at, true));
  return unsure ? [when, h('abbr', { title: say('clock_wrong') }, '?')] : when;
}

/** Labels with their scores, the same label once. */
function seen(objects) {
  if (!objects.length) return h('span', { class: 'muted' }, say('nothing'));
  const scores = new Map();
  for (const one of objects) {
    const { label, score } = one || {};
    const text = clip(label, 60);
    scores.set(text, [...(scores.get(text) || []), has(score) ? number(score, 2) : '–']);
  }
  const groups = [...scores].slice(0, LABELS_SHOWN).map(([label, all]) => h(
    'span', { class: 'label' }, label, all.length > 1 && ` ×${all.length}`, ' ',
    h('span', { class: 'muted' }, all.slice(0, 3).join(' '), all.length > 3 && ' …'),
  ));
  if (scores.size > LABELS_SHOWN) groups.push(h('span', { class: 'muted' }, say('more', { n: scores.size - LABELS_SHOWN })));
  return groups;
}

export function events(rows, error) {
  if (error) return h('p', { class: 'empty' }, say('not_readable', { text: error }));
  if (!rows) return null;
  if (!rows.length) return empty('no_events');
  return h('ul', { class: 'events' }, rows.map((event) => {
    const said = sentence(event.code, event.kind, event.args);
    const name = `${event.code || ''}|${event.kind}`.split('|').filter(Boolean);
    const state = name.some((one) => BAD.test(one)) ? 'failed' : ODD.test(name[0]) ? 'degraded' : GOOD.test(event.kind) ? 'ok' : 'off';
    return h(
      'li',
      { 'data-key': event.uid || event.seq },
      h('span', { class: 'time' }, h('time', { datetime: event.at, title: fullTime(event.at) }, clockTime(event.at))),
      mark(state),
      h('div', null,
        h('p', { class: 'reason' }, event.subject && [h('strong', null, clip(event.subject, 120)), ' '], withCode(said || clip(event.text || event.kind, 300))),
        said && more(event)),
    );
  }));
}

function more(event) {
  const text = detail({ code: event.code || event.kind, args: event.args });
  return text && h('p', { class: 'detail' }, text);
}
