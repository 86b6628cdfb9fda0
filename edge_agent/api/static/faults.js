// What does not run, why, and what to do: the sentence on top and the list below it.

import { h } from './dom.js';
import { clip, clockTime, duration, fill, fullTime, knows, languageCode, say } from './words.js';

const RANK = { failed: 0, degraded: 1 };
const DETAILS = ['text', 'error', 'reason']; // of args: said beside the sentence when it does not say them itself

let codes = {};

/** The table of `/api/codes.json`. */
export function setCodes(table) {
  codes = table;
}

export function isOff(part) {
  return part.state === 'off';
}

/** The sentence of a code; the agent's own English where the table lacks it. */
export function reason(part) {
  return translated(part, 'reason') || String(part.reason || part.code || '');
}

export function cure(part) {
  return translated(part, 'cure') || String(part.cure || '');
}

/** The sentence of an event's code, else of its kind; empty when the table lacks both. */
export function sentence(code, kind, args) {
  return translated({ code, args }, 'reason') || translated({ code: kind, args }, 'reason');
}

/** What the sentence leaves out of the args. */
export function detail(part) {
  const args = part.args || {};
  const said = entry(part.code, 'reason');
  return DETAILS.filter((name) => typeof args[name] === 'string' && args[name] && !said.includes(`{${name}}`))
    .map((name) => clip(args[name], 600))
    .join(' ');
}

function translated(part, what) {
  return fill(entry(part.code, what), part.args || {});
}

function entry(code, what) {
  const row = Object.prototype.hasOwnProperty.call(codes, code || '') ? codes[code] : null;
  return row && row[what] ? row[what][languageCode()] || '' : '';
}

/** Every part of the document that is impaired or failed, worst first. Parts that this page has not heard of count too. */
export function faults(status) {
  const found = [];
  for (const [room, value] of Object.entries(status)) {
    const parts = Array.isArray(value) ? value : [value];
    for (const part of parts) {
      if (!part || !(part.state in RANK) || (room === 'agent' && !part.code)) continue;
      const kind = knows(`one_${one(room)}`) ? say(`one_${one(room)}`) : room;
      const name = Array.isArray(value) ? part.title || part.name || '' : '';
      found.push({ key: `${room}/${part.name || ''}`, kind, name, part });
    }
  }
  return found.sort((a, b) => RANK[a.part.state] - RANK[b.part.state]);
}

function one(room) {
  return room.endsWith('s') && room !== 'access' ? room.slice(0, -1) : room;
}

/** The whole agent in one sentence, and the state that colours it. */
export function verdict(status, found) {
  const failed = found.filter(({ part }) => part.state === 'failed').length;
  const degraded = found.length - failed;
  const state = failed ? 'failed' : degraded || status.agent.state !== 'ok' ? 'degraded' : 'ok';
  return { state, text: verdictText(state, failed, degraded) };
}

function verdictText(state, failed, degraded) {
  if (state === 'ok') return say('all_run');
  if (failed && degraded) return say('both', { failed: counted('failed', failed), degraded: counted('degraded', degraded) });
  if (failed) return counted('failed', failed);
  return degraded ? counted('degraded', degraded) : say('agent_degraded');
}

function counted(state, n) {
  return n === 1 ? say(`one_${state}`) : say(`some_${state}`, { n });
}

export function faultRow({ key, kind, name, part }, now) {
  return h(
    'li',
    { 'data-key': key, class: 'fault' },
    mark(part.state),
    h('div', { class: 'whose' },
      h('p', null, h('span', { class: name ? 'muted' : 'only' }, kind), name && ' ', name && h('strong', null, name)),
      h('p', { class: 'small' }, badge(part), ' ', sinceLine(part, now))),
    h('div', { class: 'why' }, explained(part)),
  );
}

/** Reason, cure, code and detail of a part that does not run as it should. */
export function explained(part, withCure = true) {
  const todo = withCure && cure(part);
  const more = [part.code, detail(part)].filter(Boolean).join(' · ');
  return [
    reason(part) && h('p', { class: 'reason' }, withCode(reason(part))),
    todo && h('p', { class: 'cure' }, h('span', { class: 'muted' }, say('what_to_do')), ' ', withCode(todo)),
    more && h('p', { class: 'detail' }, more),
  ];
}

function sinceLine(part, now) {
  const at = Date.parse(part.since || '');
  if (Number.isNaN(at)) return null;
  const text = say('since', { time: clockTime(at), age: duration((now - at) / 1000) });
  return h('time', { class: 'muted', datetime: part.since, title: fullTime(at) }, text);
}

/** A shape of its own for each state: colour alone does not tell. */
export function mark(state) {
  return h('span', { class: `mark ${state in RANK || state === 'off' ? state : 'ok'}`, 'aria-hidden': 'true' });
}

export function badge(part) {
  const state = part.state in RANK || part.state === 'off' ? part.state : 'ok';
  return h('span', { class: `badge ${state}` }, say(state));
}

/** Text with what stands between backticks as code. */
export function withCode(text) {
  return text.split('`').map((piece, index) => (index % 2 && piece ? h('code', null, piece) : piece));
}
